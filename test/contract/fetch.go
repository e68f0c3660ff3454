package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// source is one published package and the file that is taken out of it.
type source struct {
	pack, version, digest string
	archive               string // the name npm gives the archive
	file                  string // inside it
}

var (
	restSource = source{
		pack: "@octokit/openapi", version: "23.0.2", archive: "octokit-openapi-23.0.2.tgz", file: "package/generated/api.github.com.json",
		digest: "pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
	}
	graphqlSource = source{
		pack: "@octokit/graphql-schema", version: "15.26.1", archive: "octokit-graphql-schema-15.26.1.tgz", file: "package/schema.graphql",
		digest: "RFDC2MpRBd4AxSRvUeBIVeBU7ojN/SxDfALUd7iVYOSeEK3gZaqR2MGOysj4Zh2xj2RY5fQAUT+Oqq7hWTraMA==",
	}
)

// fetch returns the file of a package, from the cache or by npm. The archive's
// digest is checked each time, so that a damaged cache is noticed.
func (s source) fetch(ctx context.Context, cache string) ([]byte, error) {
	archive := filepath.Join(cache, s.archive)
	raw, err := os.ReadFile(archive)
	if errors.Is(err, os.ErrNotExist) {
		if err := s.download(ctx, cache); err != nil {
			return nil, err
		}
		raw, err = os.ReadFile(archive)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.pack, err)
	}
	sum := sha512.Sum512(raw)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != s.digest {
		return nil, fmt.Errorf("%s has digest sha512-%s, want sha512-%s: remove it and run again", archive, got, s.digest)
	}
	return extract(raw, s.file)
}

func (s source) download(ctx context.Context, cache string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	name := s.pack + "@" + s.version
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", cache, name)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm pack %s: %w (npm must be installed and able to reach its registry)", name, err)
	}
	return nil
}

func extract(archive []byte, name string) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("unzip: %w", err)
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("the archive has no %s", name)
		}
		if err != nil {
			return nil, fmt.Errorf("read archive: %w", err)
		}
		if h.Name == name {
			return io.ReadAll(t)
		}
	}
}
