// Package setup registers the GitHub App by GitHub's manifest flow: a page with one button, the round trip through GitHub, and the
// exchange of the code that comes back for the App's credentials (RG-476, RG-477).
//
// It guarantees that a code is exchanged only for a browser that this process sent (a signed state with audience and expiry, bound to a
// cookie), that credentials are written to new files of mode 0600 or shown once and escaped, and that nothing is kept in memory after the
// answer. It does not check who opens the page: `countersign setup` listens on a loopback address, and a service serves it only while an
// operator has switched it on.
//
// Order of writes: every file is created first, empty, so that a folder that cannot take them is known before GitHub makes an App; then
// the code is exchanged and the files are filled. A crash after GitHub made the App and before the files are filled leaves an App
// without a known key: generate a key on its settings page, or delete it there. Running again makes another App.
package setup
