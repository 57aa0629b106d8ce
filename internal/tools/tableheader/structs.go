package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// writeStruct writes a Go struct in C, with assertions of its offsets.
func writeStruct(b *bytes.Buffer, name string, t reflect.Type) error {
	var asserts bytes.Buffer
	fmt.Fprintf(b, "struct %s {\n", name)
	end := uintptr(0)
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type.Size() == 0 {
			continue
		}
		end = f.Offset + f.Type.Size()
		if f.Name == "_" {
			fmt.Fprintf(b, "\tuint8_t unused_%d[%d];\n", i, f.Type.Size())
			continue
		}
		c, array, err := inC(name, f)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\t%s %s%s;\n", c, snake(f.Name), array)
		fmt.Fprintf(&asserts, "_Static_assert(offsetof(struct %s, %s) == %d, \"layout\");\n", name, snake(f.Name), f.Offset)
	}
	// Go pads a struct that ends with an empty field.
	if end += -end % uintptr(t.Align()); end < t.Size() {
		fmt.Fprintf(b, "\tuint8_t unused_end[%d];\n", t.Size()-end)
	}
	fmt.Fprintf(b, "};\n%s_Static_assert(sizeof(struct %s) == %d, \"layout\");\n\n", asserts.String(), name, t.Size())
	return nil
}

// inC returns the type of a field in C, and the length of an array.
func inC(owner string, f reflect.StructField) (c, array string, err error) {
	t := f.Type
	if t.Kind() == reflect.Array {
		array, t = fmt.Sprintf("[%d]", t.Len()), t.Elem()
	}
	switch t.String() {
	case "uint8", "uint16", "uint32", "uint64", "int64":
		return t.String() + "_t", array, nil
	case "atomic.Uint32":
		return "uint32_t", array, nil
	case "atomic.Uint64":
		return "uint64_t", array, nil
	case "restrack.Process":
		return "struct table_process", array, nil
	}
	if t.Kind() == reflect.Struct && t.PkgPath() == "github.com/softhca/softhca/internal/restrack" {
		return "struct " + owner + "_" + snake(f.Name), array, nil
	}
	return "", "", fmt.Errorf("field %s of %s: no type in C for %v", f.Name, owner, t)
}

// snake returns a Go name as C names are spelt: SendCQ becomes send_cq.
func snake(name string) string {
	var b strings.Builder
	r := []rune(name)
	for i, c := range r {
		next := i+1 < len(r) && unicode.IsLower(r[i+1])
		if i > 0 && unicode.IsUpper(c) && (unicode.IsLower(r[i-1]) || next) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// upper returns the name of a constant.
func upper(name string) string { return strings.ToUpper(name) }
