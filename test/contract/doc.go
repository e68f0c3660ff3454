// Command contract proves that the GitHub stand-in can be believed, and that
// Countersign's client speaks GitHub's language.
//
// It fetches GitHub's published descriptions by their package names (pinned by
// version and digest, cached below .cache, never committed), trims the REST one to
// the routes and webhooks that the stand-in serves, applies the documented patches of
// patches.json, and then holds against them
//
//   - every request and every answer of a run that calls every route, once for
//     each REST API version, and of the same run made by pkg/ghclient;
//   - every webhook that the run caused;
//   - every GraphQL document and answer, and the stand-in's schema.
//
// What the descriptions do not say (order, side effects, timing) is not checked
// here: the tests of pkg/githubsim are named for those behaviours.
//
// The last line says how many calls were checked, how many violations there were, and
// which share of random corruptions of the same answers the check catches: a
// check that catches nothing proves nothing. The exit code is 1 on a violation, and
// when the share falls below the floor.
package main
