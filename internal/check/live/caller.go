package live

import (
	"runtime"
	"strings"
)

// Caller returns the function of the program, or of a test, that has called the packages of the verbs, such as
// "main.serve"; empty if the stack does not tell.
func Caller() string {
	var k stack
	k.n = runtime.Callers(2, k.pcs[:])
	lib := newLibrary()
	all, _ := k.frames(&lib)
	if len(all) == 0 {
		return ""
	}
	f := all[0].Function
	return f[strings.LastIndexByte(f, '/')+1:]
}
