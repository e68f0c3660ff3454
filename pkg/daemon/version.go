package daemon

import (
	"runtime"
	"runtime/debug"
)

// version is set by the release build: -ldflags "-X github.com/countersign/countersign/pkg/daemon.version=v1.2.3".
var version string

// Version says what is running.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// CurrentVersion reads the version of this binary from its build information.
func CurrentVersion() Version {
	v := Version{Version: version, Revision: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if v.Version == "" {
			v.Version = info.Main.Version
		}
		modified := false
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				modified = s.Value == "true"
			}
		}
		if modified {
			v.Revision += "+dirty"
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "devel"
	}
	return v
}
