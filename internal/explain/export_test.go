package explain

// PlaceOf is what a test looks into.
var PlaceOf = placeOf
