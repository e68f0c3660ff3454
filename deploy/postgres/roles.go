// Package postgres carries the grants of every service's database role (roles.sql), for whoever migrates.
package postgres

import _ "embed"

// RolesSQL creates the roles and grants; applying it again changes nothing.
//
//go:embed roles.sql
var RolesSQL string
