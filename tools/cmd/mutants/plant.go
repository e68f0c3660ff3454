package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"golang.org/x/tools/go/packages"
)

// mutant is one change of the source.
type mutant struct {
	id     int
	place  token.Position
	change string
	line   string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s in: %s", filepath.Base(m.place.Filename), m.place.Line, m.change, m.line)
}

// insertion is text to be put at an offset; closing ones come before opening ones, the innermost first.
type insertion struct {
	at      int
	text    string
	opens   bool
	order   int
	replace int // bytes of the source that the text stands for
}

type planter struct {
	pkg     *packages.Package
	file    *ast.File
	source  []byte
	base    int
	edits   []insertion
	mutants []mutant
	next    int
}

// plant writes an overlay of the package with every mutant in it, and a file that picks one by the environment.
func plant(dir string, files *regexp.Regexp, temp string) ([]mutant, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	loaded, err := packages.Load(&packages.Config{Dir: abs, Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedFiles | packages.NeedCompiledGoFiles}, ".")
	if err != nil {
		return nil, err
	}
	if len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		return nil, fmt.Errorf("load %s: %v", dir, loaded[0].Errors)
	}
	pkg := loaded[0]
	overlay := map[string]string{}
	var all []mutant
	next := 1
	for i, file := range pkg.Syntax {
		name := pkg.CompiledGoFiles[i]
		if !files.MatchString(filepath.Base(name)) {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p := &planter{pkg: pkg, file: file, source: source, base: pkg.Fset.File(file.Pos()).Base(), next: next}
		p.walk()
		next = p.next
		all = append(all, p.mutants...)
		changed := filepath.Join(temp, filepath.Base(name))
		if err := os.WriteFile(changed, p.apply(), 0o600); err != nil {
			return nil, err
		}
		overlay[name] = changed
	}
	picker := filepath.Join(temp, "zz_mutants.go")
	if err := os.WriteFile(picker, []byte(strings.Replace(pickerSource, "PACKAGE", pkg.Name, 1)), 0o600); err != nil {
		return nil, err
	}
	overlay[filepath.Join(abs, "zz_mutants.go")] = picker
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return nil, err
	}
	return all, os.WriteFile(filepath.Join(temp, "overlay.json"), text, 0o600)
}

func (p *planter) offset(pos token.Pos) int { return int(pos) - p.base }

func (p *planter) new(pos token.Pos, change string) int {
	place := p.pkg.Fset.Position(pos)
	lines := strings.Split(string(p.source), "\n")
	p.mutants = append(p.mutants, mutant{p.next, place, change, strings.TrimSpace(lines[place.Line-1])})
	p.next++
	return p.next - 1
}

func (p *planter) open(pos token.Pos, text string) {
	p.edits = append(p.edits, insertion{at: p.offset(pos), text: text, opens: true, order: len(p.edits)})
}

func (p *planter) close(pos token.Pos, text string) {
	p.edits = append(p.edits, insertion{at: p.offset(pos), text: text, order: len(p.edits)})
}

func (p *planter) swap(pos token.Pos, length int, text string) {
	p.edits = append(p.edits, insertion{at: p.offset(pos), text: text, opens: true, order: len(p.edits), replace: length})
}

// apply is the source with every insertion; nodes were walked from the outside in, so that order tells nesting.
func (p *planter) apply() []byte {
	sort.SliceStable(p.edits, func(i, j int) bool {
		a, b := p.edits[i], p.edits[j]
		switch {
		case a.at != b.at:
			return a.at < b.at
		case a.opens != b.opens:
			return !a.opens
		case a.opens:
			return a.order < b.order
		default:
			return a.order > b.order
		}
	})
	var out []byte
	at := 0
	for _, e := range p.edits {
		out = append(out, p.source[at:e.at]...)
		out = append(out, e.text...)
		at = e.at + e.replace
	}
	return append(out, p.source[at:]...)
}

func (p *planter) walk() {
	ast.Inspect(p.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.CONST && n.Tok != token.TYPE && n.Tok != token.IMPORT
		case *ast.IfStmt:
			if p.plainBool(n.Cond) {
				p.open(n.Cond.Pos(), fmt.Sprintf("mutNot(%d, ", p.new(n.Cond.Pos(), "condition negated")))
				p.close(n.Cond.End(), ")")
			}
		case *ast.BinaryExpr:
			p.binary(n)
		case *ast.BranchStmt:
			if n.Tok == token.CONTINUE || n.Tok == token.BREAK {
				p.open(n.Pos(), fmt.Sprintf("if !mutOn(%d) { ", p.new(n.Pos(), n.Tok.String()+" dropped")))
				p.close(n.End(), " }")
			}
		case *ast.ReturnStmt:
			for _, r := range n.Results {
				if id, ok := r.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") && p.plainBool(r) {
					p.open(r.Pos(), fmt.Sprintf("mutNot(%d, ", p.new(r.Pos(), id.Name+" returned as its opposite")))
					p.close(r.End(), ")")
				}
			}
		}
		return true
	})
}

// plainBool: of type bool and no constant expression of a named type.
func (p *planter) plainBool(e ast.Expr) bool {
	t := p.pkg.TypesInfo.Types[e]
	basic, ok := types.Default(t.Type).(*types.Basic)
	return ok && basic.Kind() == types.Bool
}

var swaps = map[token.Token][2]string{
	token.LSS: {"Less", "<="}, token.LEQ: {"LessEqual", "<"}, token.GTR: {"Greater", ">="}, token.GEQ: {"GreaterEqual", ">"},
	token.EQL: {"Equal", "!="}, token.NEQ: {"Unequal", "=="}, token.LAND: {"And", "||"}, token.LOR: {"Or", "&&"},
	token.ADD: {"Add", "-"}, token.SUB: {"Sub", "+"},
}

func (p *planter) binary(n *ast.BinaryExpr) {
	info := p.pkg.TypesInfo
	s, known := swaps[n.Op]
	if !known || info.Types[n].Value != nil || !p.fits(n) {
		return
	}
	id := p.new(n.OpPos, n.Op.String()+" becomes "+s[1])
	p.open(n.Pos(), fmt.Sprintf("mut%s(%d, ", s[0], id))
	if n.Op == token.LAND || n.Op == token.LOR {
		p.swap(n.OpPos, len(n.Op.String()), ", func() bool { return (")
		p.close(n.End(), ") })")
		return
	}
	p.swap(n.OpPos, len(n.Op.String()), ",")
	p.close(n.End(), ")")
}

// fits: the operands are such that a generic function takes them as they are.
func (p *planter) fits(n *ast.BinaryExpr) bool {
	x, y := p.pkg.TypesInfo.Types[n.X], p.pkg.TypesInfo.Types[n.Y]
	if x.IsNil() || y.IsNil() {
		return false
	}
	same := types.Identical(x.Type, y.Type)
	basic, isBasic := x.Type.Underlying().(*types.Basic)
	switch n.Op {
	case token.LAND, token.LOR:
		return p.plainBool(n.X) && p.plainBool(n.Y) && p.plainBool(n)
	case token.ADD, token.SUB:
		return same && isBasic && basic.Info()&types.IsInteger != 0 && basic.Info()&types.IsUntyped == 0
	case token.EQL, token.NEQ:
		return same && types.Comparable(x.Type) && (!isBasic || basic.Info()&types.IsUntyped == 0) && p.plainBool(n)
	default:
		return same && isBasic && basic.Info()&types.IsUntyped == 0 && p.plainBool(n)
	}
}

const pickerSource = `package PACKAGE

import (
	"cmp"
	"os"
	"strconv"
)

var mutAlive, _ = strconv.Atoi(os.Getenv("MUTANT"))

func mutOn(id int) bool { return id == mutAlive }

func mutNot(id int, b bool) bool { return b != mutOn(id) }

func mutLess[T cmp.Ordered](id int, a, b T) bool { return a < b || mutOn(id) && a == b }

func mutLessEqual[T cmp.Ordered](id int, a, b T) bool { return a < b || !mutOn(id) && a == b }

func mutGreater[T cmp.Ordered](id int, a, b T) bool { return a > b || mutOn(id) && a == b }

func mutGreaterEqual[T cmp.Ordered](id int, a, b T) bool { return a > b || !mutOn(id) && a == b }

func mutEqual[T comparable](id int, a, b T) bool { return (a == b) != mutOn(id) }

func mutUnequal[T comparable](id int, a, b T) bool { return (a != b) != mutOn(id) }

func mutAnd(id int, a bool, b func() bool) bool {
	if mutOn(id) {
		return a || b()
	}
	return a && b()
}

func mutOr(id int, a bool, b func() bool) bool {
	if mutOn(id) {
		return a && b()
	}
	return a || b()
}

type mutInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func mutAdd[T mutInteger](id int, a, b T) T {
	if mutOn(id) {
		return a - b
	}
	return a + b
}

func mutSub[T mutInteger](id int, a, b T) T {
	if mutOn(id) {
		return a + b
	}
	return a - b
}
`
