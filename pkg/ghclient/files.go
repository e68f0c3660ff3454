package ghclient

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's object id, not a secret
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	opFile             operation = "repos.get_content"
	opBlob             operation = "git.get_blob"
	opCodeownersErrors operation = "repos.codeowners_errors"
	opChangedFiles     operation = "pulls.list_files"
)

// maxListedFiles is where GitHub stops listing the files of a pull request.
const maxListedFiles = 3000

// File is the content of one path at ref, whole: what GitHub's JSON leaves out (1 to 100 MB) is fetched by its object id as bytes. The
// bytes are proved to be the object's by hashing them. Errors: ErrNotFound, also where the path is a directory or a submodule.
// A symbolic link is returned with Symlink set and without text: its text would be the name of another file.
func (c *Client) File(ctx context.Context, r Repo, ref, path string) (File, error) {
	what := fmt.Sprintf("read %s of %s at %s", path, r.FullName(), ref)
	route, err := r.path(append([]string{"contents"}, strings.Split(path, "/")...)...)
	if err != nil {
		return File{}, doing(err, "%s", what)
	}
	list := call{op: opFile, method: http.MethodGet, path: route, query: url.Values{"ref": {ref}}, installation: c.installation, perms: c.perms}
	got, err := c.app.send(ctx, list)
	if err != nil {
		return File{}, doing(err, "%s", what)
	}
	root, err := parseAny(got.body)
	if err == nil && root.value.kind() == '[' {
		return File{}, doing(&apiError{sentinel: ErrNotFound, op: opFile, text: "the path is a directory"}, "%s", what)
	}
	if err != nil {
		return File{}, doing(malformed(opFile, err), "%s", what)
	}
	file := File{Path: path, Ref: ref}
	switch root.object().at("type").oneOf("file", "dir", "symlink", "submodule") {
	case "dir", "submodule":
		return File{}, doing(&apiError{sentinel: ErrNotFound, op: opFile, text: "the path is not a file"}, "%s", what)
	case "symlink":
		file.Symlink = true
		return file, nil
	}
	file.SHA = root.at("sha").sha()
	size, encoding := root.at("size").count(), root.at("encoding").optionalText()
	if got := root.at("path").optionalText(); got != path {
		root.at("path").fail("the path that was asked for")
	}
	if root.read.err != nil {
		return File{}, doing(malformed(opFile, root.read.err), "%s", what)
	}
	if encoding == "base64" {
		text, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(root.at("content").optionalText(), "\n", ""))
		if err == nil && len(text) == size && isBlob(text, file.SHA) {
			file.Text = text
			return file, nil
		}
	}
	file.Text, err = c.blob(ctx, r, file.SHA)
	return file, doing(err, "%s", what)
}

// blob is the bytes of one object, which can't change: GitHub gives up to 100 MB, we read up to 64 MiB.
func (c *Client) blob(ctx context.Context, r Repo, sha string) ([]byte, error) {
	path, err := r.path("git", "blobs", sha)
	if err != nil {
		return nil, err
	}
	got, err := c.app.send(ctx, call{op: opBlob, method: http.MethodGet, path: path, accept: acceptRaw, raw: true, installation: c.installation, perms: c.perms})
	if err != nil {
		return nil, err
	}
	if !isBlob(got.body, sha) {
		return nil, malformed(opBlob, errors.New("the bytes are not those of the object"))
	}
	return got.body, nil
}

// isBlob proves bytes against git's object id, SHA-1 or SHA-256.
func isBlob(text []byte, sha string) bool {
	header := "blob " + strconv.Itoa(len(text)) + "\x00"
	if len(sha) == 64 {
		h := sha256.New()
		h.Write([]byte(header))
		h.Write(text)
		return hex.EncodeToString(h.Sum(nil)) == sha
	}
	h := sha1.New() //nolint:gosec // git's object id, not a secret
	h.Write([]byte(header))
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil)) == sha
}

// CodeownersErrors are the lines of CODEOWNERS at ref that GitHub can't use (RG-317). ErrNotFound where there is no such file, or none
// that our token may see: that is never the same as a file without errors.
func (c *Client) CodeownersErrors(ctx context.Context, r Repo, ref string) ([]CodeownersError, error) {
	path, err := r.path("codeowners", "errors")
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if ref != "" {
		query.Set("ref", ref)
	}
	root, err := c.get(ctx, opCodeownersErrors, path, query)
	var found []CodeownersError
	if err == nil {
		found = readCodeownersErrors(root.at("errors"))
		if root.read.err != nil {
			err = malformed(opCodeownersErrors, root.read.err)
		}
	}
	if err != nil {
		return nil, doing(err, "read the CODEOWNERS errors of %s", r.FullName())
	}
	return found, nil
}

func readCodeownersErrors(list node) []CodeownersError {
	var found []CodeownersError
	for _, item := range list.list() {
		found = append(found, CodeownersError{
			Line: item.object().at("line").count(), Column: item.at("column").count(), Kind: item.at("kind").text(),
			Source: item.at("source").optionalText(), Suggestion: item.at("suggestion").optionalText(),
			Message: item.at("message").optionalText(), Path: item.at("path").optionalText(),
		})
	}
	return found
}

// changeStatuses are GitHub's; anything else is something we don't understand, hence an error.
var changeStatuses = []string{"added", "removed", "modified", "renamed", "copied", "changed", "unchanged"}

// listChangedFiles is GitHub's own list, which must have exactly want entries (RG-349) and no path twice.
func (c *Client) listChangedFiles(ctx context.Context, r Repo, number, want int) ([]ChangedFile, error) {
	path, err := r.path("pulls", strconv.Itoa(number), "files")
	if err != nil {
		return nil, err
	}
	files := make([]ChangedFile, 0, want)
	seen := make(map[string]bool, want)
	list := call{op: opChangedFiles, method: http.MethodGet, path: path, installation: c.installation, perms: c.perms}
	err = c.app.each(ctx, list, "", aliases{repository: r.ID}, func(p *listPage) error {
		for _, item := range p.items {
			one := readChangedFile(item.object())
			if seen[one.Path] {
				item.at("filename").fail("a path that is not in the list twice")
			}
			seen[one.Path] = true
			files = append(files, one)
		}
		if len(files) >= want && !p.linked {
			p.next = 0
		}
		if len(files) > want {
			return countMismatch(len(files), want)
		}
		return nil
	})
	if err == nil && len(files) != want {
		err = countMismatch(len(files), want)
	}
	if err != nil {
		return nil, err
	}
	return files, nil
}

func countMismatch(got, want int) error {
	return malformed(opChangedFiles, fmt.Errorf("%d changed files listed where the pull request says %d", got, want))
}

func readChangedFile(item node) ChangedFile {
	one := ChangedFile{
		Path: item.at("filename").text(), PreviousPath: item.at("previous_filename").optionalText(),
		Status: item.at("status").oneOf(changeStatuses...), BlobSHA: item.at("sha").optionalSHA(),
	}
	if one.Status == "renamed" && one.PreviousPath == "" { // RG-326
		item.at("previous_filename").fail("the previous path of a renamed file")
	}
	return one
}
