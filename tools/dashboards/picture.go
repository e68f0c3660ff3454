package dashboards

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// The picture of a dashboard has Grafana's grid of 24 columns, so many pixels each.
const (
	column = 52
	line   = 26
)

var (
	paper   = color.RGBA{0x11, 0x12, 0x17, 0xff}
	card    = color.RGBA{0x1b, 0x1d, 0x24, 0xff}
	ink     = color.RGBA{0xcc, 0xcc, 0xdc, 0xff}
	faint   = color.RGBA{0x4a, 0x4d, 0x58, 0xff}
	red     = color.RGBA{0xe0, 0x4f, 0x5f, 0xff}
	strokes = []color.RGBA{
		{0x73, 0xbf, 0x69, 0xff}, {0xf2, 0xcc, 0x0c, 0xff}, {0x57, 0x94, 0xf2, 0xff}, {0xff, 0x98, 0x30, 0xff}, {0xb8, 0x77, 0xd9, 0xff}, {0x5c, 0xc9, 0xc9, 0xff},
		{0xf2, 0x49, 0x8c, 0xff}, {0xa3, 0xa9, 0xb8, 0xff},
	}
)

// curve is one series of a panel over the picture's time.
type curve struct {
	name   string
	times  []float64
	values []float64
}

// Picture draws a dashboard with the data of the Prometheus at base, as Grafana would lay it out: for documentation and for looking at it
// where Grafana is not to be had. The list of alerts is drawn from ALERTS.
func Picture(ctx context.Context, base string, d Dashboard, end time.Time, span time.Duration, interval string) (image.Image, error) {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	c := &canvas{}
	for _, f := range []struct {
		into *font.Face
		size float64
	}{{&c.small, 11}, {&c.normal, 14}, {&c.large, 22}} {
		if *f.into, err = opentype.NewFace(parsed, &opentype.FaceOptions{Size: f.size, DPI: 72}); err != nil {
			return nil, err
		}
	}
	c.RGBA = image.NewRGBA(image.Rect(0, 0, 24*column, (d.height()+2)*line))
	c.fill(c.Bounds(), paper)
	c.text(c.large, ink, 12, 32, "Countersign / "+d.Title)
	y := 2
	for _, row := range d.Rows {
		c.text(c.normal, ink, 12, y*line+18, row.Title)
		y++
		x, tall := 0, 0
		for _, p := range row.Panels {
			w, h := p.size()
			if x+w > 24 {
				x, y, tall = 0, y+tall, 0
			}
			curves, err := c.ask(ctx, base, p, end, span, interval)
			if err != nil {
				return nil, fmt.Errorf("%s / %s: %w", d.Title, p.Title, err)
			}
			c.panel(p, curves, image.Rect(x*column+3, y*line+3, (x+w)*column-3, (y+h)*line-3), end, span)
			x, tall = x+w, max(tall, h)
		}
		y += tall
	}
	return c, nil
}

// height is the dashboard's in lines.
func (d Dashboard) height() int {
	y := 0
	for _, row := range d.Rows {
		y++
		x, tall := 0, 0
		for _, p := range row.Panels {
			w, h := p.size()
			if x+w > 24 {
				x, y, tall = 0, y+tall, 0
			}
			x, tall = x+w, max(tall, h)
		}
		y += tall
	}
	return y
}

type canvas struct {
	*image.RGBA
	small, normal, large font.Face
}

// ask reads what a panel shows.
func (c *canvas) ask(ctx context.Context, base string, p Panel, end time.Time, span time.Duration, interval string) ([]curve, error) {
	queries := p.Queries
	if p.Kind == Firing {
		queries = []Query{{Expr: `ALERTS{alertname=~"Countersign.*",alertstate="firing"}`, Legend: "{{alertname}}"}}
	}
	var all []curve
	for _, query := range queries {
		var answer struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
		err := get(ctx, base, "/api/v1/query_range", url.Values{
			"query": {concrete(query.Expr, interval)}, "start": {strconv.FormatInt(end.Add(-span).Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)},
			"step": {strconv.FormatFloat(max(1, span.Seconds()/240), 'f', 0, 64)},
		}, &answer)
		if err != nil {
			return nil, err
		}
		for _, s := range answer.Result {
			v := curve{name: query.Legend}
			for label, value := range s.Metric {
				v.name = strings.ReplaceAll(v.name, "{{"+label+"}}", value)
			}
			for _, pair := range s.Values {
				at, _ := pair[0].(float64)
				text, _ := pair[1].(string)
				if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
					v.times, v.values = append(v.times, at), append(v.values, n)
				}
			}
			if len(v.values) > 0 {
				all = append(all, v)
			}
		}
	}
	return all, nil
}

func (c *canvas) panel(p Panel, curves []curve, r image.Rectangle, end time.Time, span time.Duration) {
	c.fill(r, card)
	c.text(c.normal, ink, r.Min.X+8, r.Min.Y+18, p.Title)
	body := image.Rect(r.Min.X+8, r.Min.Y+26, r.Max.X-8, r.Max.Y-8)
	switch {
	case len(curves) == 0:
		text := "none"
		if p.Kind == Firing {
			text = "nothing fires"
		}
		c.text(c.normal, faint, body.Min.X, body.Min.Y+18, text)
	case p.Kind == Lines:
		c.chart(p, curves, body, end, span)
	default:
		c.numbers(p, curves, body)
	}
}

// numbers shows the last value of each series.
func (c *canvas) numbers(p Panel, curves []curve, r image.Rectangle) {
	wide := r.Dx() / len(curves)
	for i, v := range curves {
		last := v.values[len(v.values)-1]
		shade := strokes[0]
		if p.Alert > 0 && last >= p.Alert {
			shade = red
		}
		c.text(c.large, shade, r.Min.X+i*wide, r.Min.Y+28, p.Unit.show(last))
		c.text(c.small, ink, r.Min.X+i*wide, r.Min.Y+48, clip(v.name, wide/6))
	}
}

// chart draws the lines of a panel, its threshold and its legend.
func (c *canvas) chart(p Panel, curves []curve, r image.Rectangle, end time.Time, span time.Duration) {
	plot := image.Rect(r.Min.X+52, r.Min.Y+4, r.Max.X, r.Max.Y-34)
	top := 0.0
	for _, v := range curves {
		for _, n := range v.values {
			top = max(top, n)
		}
	}
	if p.Alert > 0 && p.Alert < 2*top {
		top = max(top, p.Alert)
	}
	if top == 0 {
		top = 1
	}
	top *= 1.1
	at := func(t, n float64) (float64, float64) {
		from := float64(end.Add(-span).Unix())
		return float64(plot.Min.X) + (t-from)/span.Seconds()*float64(plot.Dx()), float64(plot.Max.Y) - max(0, n)/top*float64(plot.Dy())
	}
	for i := range 4 {
		y := plot.Max.Y - i*plot.Dy()/3
		c.fill(image.Rect(plot.Min.X, y, plot.Max.X, y+1), faint)
		c.text(c.small, ink, r.Min.X, y+4, p.Unit.show(top*float64(i)/3))
	}
	if p.Alert > 0 && p.Alert <= top {
		_, y := at(0, p.Alert)
		c.fill(image.Rect(plot.Min.X, int(y), plot.Max.X, int(y)+1), red)
	}
	x := r.Min.X
	for i, v := range curves {
		shade := strokes[i%len(strokes)]
		for j := range v.values {
			x1, y1 := at(v.times[j], v.values[j])
			x0, y0 := x1, y1
			if j > 0 && v.times[j]-v.times[j-1] < span.Seconds()/20 {
				x0, y0 = at(v.times[j-1], v.values[j-1])
			}
			c.stroke(shade, x0, y0, x1, y1)
		}
		name := clip(v.name, 28)
		if wide := 16 + 7*len(name); x+wide < r.Max.X {
			c.fill(image.Rect(x, r.Max.Y-14, x+9, r.Max.Y-5), shade)
			c.text(c.small, ink, x+13, r.Max.Y-5, name)
			x += wide
		}
	}
}

func (c *canvas) fill(r image.Rectangle, shade color.Color) {
	draw.Draw(c.RGBA, r, image.NewUniform(shade), image.Point{}, draw.Src)
}

func (c *canvas) text(face font.Face, shade color.Color, x, y int, s string) {
	d := font.Drawer{Dst: c.RGBA, Src: image.NewUniform(shade), Face: face, Dot: fixed.P(x, y)}
	d.DrawString(s)
}

// stroke draws a line two pixels thick.
func (c *canvas) stroke(shade color.RGBA, x0, y0, x1, y1 float64) {
	n := max(1, math.Ceil(max(math.Abs(x1-x0), math.Abs(y1-y0))))
	for i := range int(n) + 1 {
		x, y := int(x0+(x1-x0)*float64(i)/n), int(y0+(y1-y0)*float64(i)/n)
		for _, p := range []image.Point{{x, y}, {x, y - 1}} {
			c.SetRGBA(p.X, p.Y, shade)
		}
	}
}

// show writes a value as Grafana would.
func (u Unit) show(v float64) string {
	short := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	switch {
	case u == Share:
		return short(100*v) + " %"
	case u == Seconds && v != 0 && v < 1:
		return short(1000*v) + " ms"
	case u == Seconds && v >= 120:
		return short(v/60) + " min"
	case u == Seconds:
		return short(v) + " s"
	case u == Bytes && v >= 1<<20:
		return short(v/(1<<20)) + " MiB"
	case u == Bytes && v >= 1<<10:
		return short(v/(1<<10)) + " KiB"
	case u == PerSecond:
		return short(v) + "/s"
	case v >= 1e6:
		return short(v/1e6) + " M"
	case v >= 1e4:
		return short(v/1e3) + " k"
	}
	return short(v)
}

func clip(s string, n int) string {
	if n < 4 || len(s) <= n {
		return s
	}
	return s[:n-1] + "…"
}
