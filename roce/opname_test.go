package roce

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestEveryOpcodeConstant shows that each constant has the number that the opcode
// table gives to its name, those that no code uses too.
func TestEveryOpcodeConstant(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "opcode.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		number, ok := v.Values[0].(*ast.BasicLit)
		if !ok || number.Kind != token.INT {
			return true
		}
		op, err := strconv.ParseUint(number.Value, 0, 8)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		have := strings.ReplaceAll(Opcode(op).String(), "_", "")
		have = strings.ReplaceAll(have, "IMMEDIATE", "IMM")
		if want := strings.ToUpper(v.Names[0].Name); have != want {
			t.Errorf("%s is %#02x, which the table calls %v", v.Names[0].Name, op, Opcode(op))
		}
		return true
	})
	if seen < 80 {
		t.Errorf("%d constants have a number", seen)
	}
}
