package lock

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"testing"
)

// TestOutermostFirst shows that each rank stands after the one that it is under, so that
// order.go can be read from the top.
func TestOutermostFirst(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "order.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !spec.Name.IsExported() || spec.Name.Name == "Rank" {
			return true
		}
		switch embedded := spec.Type.(*ast.StructType).Fields.List[0].Type.(type) {
		case *ast.Ident:
			if len(seen) > 0 {
				t.Errorf("%s is outermost, and not the first", spec.Name.Name)
			}
		case *ast.IndexExpr:
			if above := embedded.Index.(*ast.Ident).Name; !seen[above] {
				t.Errorf("%s stands before %s, which it is under", spec.Name.Name, above)
			}
		}
		seen[spec.Name.Name] = true
		return true
	})
	if len(seen) == 0 {
		t.Error("order.go has no ranks")
	}
}

// TestBelow shows which ranks may be taken under which: those of the same branch, further down.
func TestBelow(t *testing.T) {
	for _, c := range []struct {
		wanted, held Rank
		may          bool
	}{
		{Shard{}, IDCalls{}, true},
		{RecvQueue{}, Shard{}, true},
		{PipeQueue{}, UCMManager{}, true},
		{IDCalls{}, Shard{}, false},
		{Shard{}, Shard{}, false},
		{Manager{}, Events{}, false},
		{Events{}, Manager{}, false},
	} {
		if below(c.wanted, c.held) != c.may {
			t.Errorf("%T may be taken while %T is held: %t, want %t", c.wanted, c.held, !c.may, c.may)
		}
	}
}

// TestInlined shows that the compiler inlines the methods of ranked mutexes, as it does
// those of package sync.
func TestInlined(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", "../qp").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("inlining call to sync.(*Mutex).Lock\n")) {
		t.Error("the compiler does not inline Lock of a mutex of internal/qp")
	}
}
