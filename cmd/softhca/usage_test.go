package main

import (
	"strings"
	"testing"
)

// TestUsageWords reads what wrong command lines are told: the option, what was
// given and what is wanted, and nothing of the libraries that parse it.
func TestUsageWords(t *testing.T) {
	for line, want := range map[string]string{
		"prf write":                 `there is no command "prf"; did you mean "perf"?`,
		"xyzzy":                     `there is no command "xyzzy"`,
		"perf write --qps many":     `--qps "many": want a number`,
		"perf write --port 70000":   `--port "70000": want a number from 0 to 65535`,
		"perf write --duration 5":   `--duration "5": want a time with its unit, such as 20ms, 5s or 1m30s`,
		"perf write --size x":       `--size: "x" is no number of bytes`,
		"perf write --size":         `--size needs a value: bytes`,
		"perf write --local=maybe":  `--local "maybe": want true or false`,
		"sim --loss-ratio much":     `--loss-ratio "much": want a number such as 0.01`,
		"demo --fault-seed -1":      `--fault-seed "-1": want a number that is not negative`,
		"rping":                     `want one of --server and --client`,
		"rping -c -s -a 127.0.0.1":  `--client and --server exclude each other`,
		"judge":                     `want one of --peer, --list, --victim-source and --page`,
		"udaddy -c x":               `--connections "x": want a number`,
		"sim --seed 1 --seeds 1..2": `--seed and --seeds exclude each other`,
	} {
		code, out, errs := command(t, strings.Fields(line)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "softhca: "+want) {
			t.Errorf("%s: exit code %d, %q, want %q", line, code, errs, want)
		}
		for _, raw := range []string{"strconv", "group", "time:", "invalid argument"} {
			if strings.Contains(errs, raw) {
				t.Errorf("%s: %q is a word of a library: %s", line, raw, errs)
			}
		}
	}
}
