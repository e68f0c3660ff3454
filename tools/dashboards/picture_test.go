package dashboards

import (
	"context"
	"fmt"
	"image/color"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A picture shows the data: a line where there is one, and a number in red where it has passed its threshold.
func TestPicture(t *testing.T) {
	t.Parallel()
	end := time.Unix(1_800_000_000, 0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Query().Get("query"), "nothing") {
			_, _ = w.Write([]byte(`{"status":"success","data":{"result":[]}}`))
			return
		}
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"result":[{"metric":{"lane":"x"},"values":[[%d,"10"],[%d,"NaN"],[%d,"90"]]}]}}`, end.Unix()-600, end.Unix()-300, end.Unix())
	}))
	defer server.Close()
	draw := func(p Panel) map[color.RGBA]int {
		t.Helper()
		p.Width = 12
		img, err := Picture(context.Background(), server.URL, Dashboard{Title: "T", Rows: []Row{{"R", []Panel{p}}}}, end, 10*time.Minute, "1m")
		if err != nil {
			t.Fatal(err)
		}
		if img.Bounds().Dx() != 24*column || img.Bounds().Dy() <= 4*line {
			t.Errorf("the picture is %v", img.Bounds())
		}
		seen := map[color.RGBA]int{}
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				seen[img.(*canvas).RGBAAt(x, y)]++
			}
		}
		return seen
	}
	some := draw(lines("Some", "n.", "d.", Seconds, q("some", "{{lane}}")))
	if some[strokes[0]] < 10 {
		t.Errorf("%d pixels of a line and its legend, want some", some[strokes[0]])
	}
	if none := draw(lines("None", "n.", "d.", Seconds, q("nothing", ""))); none[strokes[0]] != 0 {
		t.Errorf("%d pixels of a line without data", none[strokes[0]])
	}
	if high := draw(number("High", "n.", "d.", Seconds, q("some", "")).alertAt(50)); high[red] == 0 || high[strokes[0]] != 0 {
		t.Errorf("90 with a threshold of 50 has %d red and %d other pixels", high[red], high[strokes[0]])
	}
	if low := draw(number("Low", "n.", "d.", Seconds, q("some", "")).alertAt(500)); low[red] != 0 || low[strokes[0]] == 0 {
		t.Errorf("90 with a threshold of 500 has %d red and %d other pixels", low[red], low[strokes[0]])
	}
}
