package convert

// Globs is what a test looks into.
var Globs = globs
