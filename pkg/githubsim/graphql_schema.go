package githubsim

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

//go:embed schema.graphql
var schemaText string

// graphqlSchema is the part of GitHub's schema that the stand-in answers. Names,
// types and nullability are GitHub's; a test holds them to the published schema.
type graphqlSchema struct{ *ast.Schema }

func mustGraphQLSchema(without ...string) *graphqlSchema {
	s, err := gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: schemaText})
	if err != nil {
		misuse("schema.graphql: %v", err) // embedded: wrong only when edited wrongly
	}
	for _, name := range without {
		typ, field, _ := strings.Cut(name, ".")
		def := s.Types[typ]
		if def == nil || def.Fields.ForName(field) == nil {
			misuse("WithoutGraphQL: the schema has no %s", name)
		}
		def.Fields = slices.DeleteFunc(def.Fields, func(f *ast.FieldDefinition) bool { return f.Name == field })
	}
	return &graphqlSchema{s}
}

// GraphQLSchema is the schema that the stand-in answers.
func GraphQLSchema() *ast.Schema { return mustGraphQLSchema().Schema }
