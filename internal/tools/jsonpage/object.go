package main

import (
	"fmt"
	"go/ast"
	"path"
	"reflect"
	"strconv"
	"strings"
)

// field is a member of an object.
type field struct {
	name    string
	json    string // its type, with links to objects
	kind    string // "" for objects
	meaning string
}

// title names an object as the page does.
func title(dir, name string) string {
	where := path.Base(dir)
	if where == "softhca" {
		return name // an object of the command itself
	}
	return where + "." + name
}

// link returns a link to an object's table.
func link(title string) string {
	return fmt.Sprintf("[%s](#%s)", title, strings.ToLower(strings.ReplaceAll(title, ".", "")))
}

// fields returns the members of a structure, including those of embedded
// structures.
func (p *page) fields(in *pkg, name string) (all []field) {
	d, ok := in.types[name]
	st, isStruct := d.expr.(*ast.StructType)
	if !ok || !isStruct {
		p.problem("%s: there is no structure %s", in.dir, name)
		return nil
	}
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 {
			if where, embedded, ok := p.named(in, d, f.Type); ok {
				all = append(all, p.fields(where, embedded)...)
			}
			continue
		}
		tag := ""
		if f.Tag != nil {
			unquoted, _ := strconv.Unquote(f.Tag.Value) // cannot fail: the compiler has parsed it
			tag = reflect.StructTag(unquoted).Get("json")
		}
		member, options, _ := strings.Cut(tag, ",")
		if member == "-" || tag == "" && !f.Names[0].IsExported() {
			continue
		}
		if member == "" {
			p.problem("%s.%s.%s has no name in JSON", in.dir, name, f.Names[0])
			continue
		}
		json := p.typeOf(in, d, f.Type)
		if _, pointer := f.Type.(*ast.StarExpr); pointer && options == "" {
			json += ", or null"
		}
		if strings.Contains(options, "omitempty") {
			json += ", or missing"
		}
		all = append(all, p.field(in.dir+"."+name, member, json, comment(f)))
	}
	return all
}

// field returns a member, and checks that it has a kind and a meaning.
func (p *page) field(where, name, json, meaning string) field {
	f := field{name: name, json: json, meaning: meaning}
	plain, _, _ := strings.Cut(json, ",")
	plain = strings.TrimPrefix(plain, "object by name of ")
	if !strings.Contains(plain, "[") {
		k, ok := kindOf(name, plain)
		if !ok {
			p.problem("%s: %s is %s, which is not the type of its kind, %s", where, name, json, k.name)
		}
		f.kind = k.name
	}
	if meaning == "" {
		p.problem("%s: %s has no comment that says what it means", where, name)
	}
	return f
}

// typeOf returns the type that a value of Go has in JSON. It queues the objects in it
// for description.
func (p *page) typeOf(in *pkg, d declared, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return p.typeOf(in, d, e.X)
	case *ast.ArrayType:
		return "array of " + p.typeOf(in, d, e.Elt)
	case *ast.MapType:
		return "object by name of " + p.typeOf(in, d, e.Value)
	case *ast.Ident:
		if json := basic(e.Name); json != "" {
			return json
		}
	case *ast.SelectorExpr:
		switch where := d.imports[e.X.(*ast.Ident).Name] + "." + e.Sel.Name; where {
		case "time.Time", "net/netip.Addr":
			return text
		case "time.Duration":
			return integer
		}
	}
	where, name, ok := p.named(in, d, e)
	switch {
	case !ok:
		p.problem("%s: a type that has no form in JSON here: %T", in.dir, e)
		return ""
	case where.methods[name+".MarshalText"]:
		return text
	}
	if _, ok := where.types[name].expr.(*ast.StructType); ok {
		p.queue = append(p.queue, object{where.dir, name})
		return link(title(where.dir, name))
	}
	return p.typeOf(where, where.types[name], where.types[name].expr)
}

// named returns the package and the name of a named type.
func (p *page) named(in *pkg, d declared, e ast.Expr) (*pkg, string, bool) {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	switch e := e.(type) {
	case *ast.Ident:
		_, ok := in.types[e.Name]
		return in, e.Name, ok
	case *ast.SelectorExpr:
		dir, ours := strings.CutPrefix(d.imports[e.X.(*ast.Ident).Name], modulePath)
		if !ours {
			return nil, "", false
		}
		where, err := p.source.load(dir)
		if err != nil {
			p.problem("%w", err)
			return nil, "", false
		}
		_, ok := where.types[e.Sel.Name]
		return where, e.Sel.Name, ok
	}
	return nil, "", false
}

// basic returns the type in JSON of a predeclared Go type.
func basic(name string) string {
	switch {
	case name == "string":
		return text
	case name == "bool":
		return boolean
	case strings.HasPrefix(name, "float"):
		return number
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"), name == "byte":
		return integer
	}
	return ""
}

// comment returns the comments of a field, in one line.
func comment(f *ast.Field) string {
	said := f.Doc.Text()
	if said == "" {
		said = f.Comment.Text()
	}
	return strings.ReplaceAll(strings.TrimSpace(strings.Join(strings.Fields(said), " ")), "|", "\\|")
}
