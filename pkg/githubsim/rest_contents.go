package githubsim

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// getContents answers a file, a directory, a symbolic link or a submodule.
func getContents(c *call) answer {
	path := strings.Trim(c.vars["path"], "/")
	if len(c.repo.branches) == 0 {
		return refused(refuse(404, "This repository is empty."))
	}
	at := c.resolve(c.query("ref"))
	if at == nil {
		return refused(refuse(404, "No commit found for the ref "+c.query("ref")))
	}
	e, found := c.s.objects.lookup(at.tree, path)
	if !found {
		return refused(errNotFound)
	}
	ref := c.query("ref")
	if ref == "" {
		ref = c.repo.defaultBranch
	}
	if e.isTree() {
		return ok(c.directory(e.sha, path, ref))
	}
	blob := c.s.objects.blobs[e.sha]
	accept := c.r.Header.Get("Accept")
	if strings.Contains(accept, "."+mediaRaw) && e.mode != "160000" {
		if len(blob) > rawBlobLimit {
			return refused(tooLarge())
		}
		c.header.Set("X-GitHub-Media-Type", "github.v3; param="+mediaRaw)
		return answer{status: http.StatusOK, raw: slices.Concat([]byte{}, blob), media: "application/vnd.github.raw+json; charset=utf-8"}
	}
	if len(blob) > rawBlobLimit {
		return refused(tooLarge())
	}
	return ok(c.fileEntry(e, path, ref, true))
}

func tooLarge() *refusal {
	e := refuse(403, "This API returns blobs up to 100 MB in size. The requested blob is too large to fetch via the API, but you can use Git to clone the repository and obtain this blob.")
	e.errors = []obj{{"resource": "Blob", "field": "data", "code": "too_large"}}
	return e
}

func (c *call) directory(tree, path, ref string) []obj {
	list := []obj{}
	for _, e := range c.s.objects.trees[tree] {
		if len(list) == 1000 {
			break // GitHub's limit on a directory
		}
		list = append(list, c.fileEntry(e, strings.TrimPrefix(path+"/"+e.name, "/"), ref, false))
	}
	return list
}

func (c *call) fileEntry(e treeEntry, path, ref string, content bool) obj {
	x := c.renderer()
	blob := c.s.objects.blobs[e.sha]
	url := fmt.Sprintf("%s/contents/%s?ref=%s", x.repoURL(c.repo), escapePath(path), ref)
	html := fmt.Sprintf("%s/blob/%s/%s", x.repoHTML(c.repo), ref, escapePath(path))
	git := x.repoURL(c.repo) + "/git/blobs/" + e.sha
	o := obj{
		"name": path[strings.LastIndex(path, "/")+1:], "path": path, "sha": e.sha, "size": len(blob), "type": "file", "url": url, "html_url": html,
		"git_url": git, "download_url": fmt.Sprintf("%s/raw/%s/%s", x.repoHTML(c.repo), ref, escapePath(path)),
	}
	switch e.mode {
	case "40000":
		o["type"], o["git_url"], o["download_url"] = "dir", x.repoURL(c.repo)+"/git/trees/"+e.sha, nil
		o["html_url"] = fmt.Sprintf("%s/tree/%s/%s", x.repoHTML(c.repo), ref, escapePath(path))
	case "120000":
		o["type"] = "symlink"
		if content {
			o["target"] = string(blob)
		}
	case "160000":
		o["type"], o["download_url"], o["size"] = "submodule", nil, 0
		if content {
			o["submodule_git_url"] = "git://example.invalid/" + path + ".git"
		} else if c.version == defaultAPIVersion {
			o["type"] = "file" // the older version lists submodules as files
		}
	default:
		if content {
			o["content"], o["encoding"] = lineWrapped(blob), "base64"
			if len(blob) > jsonBlobLimit {
				o["content"], o["encoding"] = "", "none"
			}
		}
	}
	o["_links"] = obj{"self": url, "git": o["git_url"], "html": o["html_url"]}
	return o
}

// lineWrapped is base64 in lines of 60, as GitHub sends it.
func lineWrapped(b []byte) string {
	text := base64.StdEncoding.EncodeToString(b)
	var out strings.Builder
	for len(text) > 60 {
		out.WriteString(text[:60] + "\n")
		text = text[60:]
	}
	out.WriteString(text)
	if text != "" {
		out.WriteString("\n")
	}
	return out.String()
}
