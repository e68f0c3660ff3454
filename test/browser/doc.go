// Package browser drives the console in a real Chromium, against the whole system and a stand-in of GitHub: every page is reached as a
// person reaches it, a blocked pull request's reasons change while they are looked at, and each page is held to what its readers need
// (names, order, contrast, a visible focus, no sideways scrolling on a phone), in light and dark.
//
// Its tests have the build tag browser, because they need Chromium (Debian's package chromium): make browser. They do not check other
// browsers, nor screen readers.
package browser
