// Package verbstest makes tests fail that use the verbs wrongly. It is for tests of programs that use package
// verbs, rdmacm or stream: Check is an option for verbs.Open.
package verbstest
