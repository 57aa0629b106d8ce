package main

import (
	"strings"
	"testing"
	"time"
)

// TestUsageWords checks the errors for wrong command lines: they name the
// option, the given value and the valid ones, and nothing of the parser's
// library.
func TestUsageWords(t *testing.T) {
	for line, want := range map[string]string{
		"perf write --siez 3":                   "softhca perf has no option --siez; did you mean --size?",
		"decode --frobnicate x":                 "softhca decode has no option --frobnicate\n",
		"decode --captur x":                     "softhca decode has no option --captur\n",
		"decode -q x":                           "softhca decode has no option -q\n",
		"perf write --timeout 5h":               "--timeout 5h0m0s: want more than 0 and at most 2h26m",
		"prf write":                             `there is no command "prf"; did you mean "perf"?`,
		"xyzzy":                                 `there is no command "xyzzy"`,
		"perf write --qps many":                 `--qps "many": want a number`,
		"perf write --port 70000":               `--port "70000": want a number from 0 to 65535`,
		"perf write --duration 5":               `--duration "5": want a time with its unit, such as 20ms, 5s or 1m30s`,
		"perf write --size x":                   `--size: "x" is no number of bytes`,
		"perf write --size":                     `--size needs a value: bytes`,
		"perf write --local=maybe":              `--local "maybe": want true or false`,
		"sim --loss-ratio much":                 `--loss-ratio "much": want a number such as 0.01`,
		"demo --fault-seed -1":                  `--fault-seed "-1": want a number that is not negative`,
		"help prf":                              `there is no command "prf"; did you mean "perf"?`,
		"help perf x":                           `softhca perf has no command "x"`,
		"completion bsh":                        `there is no completion for "bsh": want bash, fish, powershell or zsh; did you mean bash`,
		"completion zsh x":                      `softhca completion zsh takes no argument "x"`,
		"sim --only x":                          `--only "x": want numbers with commas`,
		"perf write --mtu 1000 127.0.0.1":       `--mtu 1000: want 256`,
		"judge --peer x":                        `--peer "x": want one IP address, such as 127.0.0.3`,
		"judge --list --run (":                  `--run "(": error parsing regexp`,
		"perf cm --local --cycles -1":           `--cycles -1: want 0 or more`,
		"perf cm --local --window 0 --cycles 1": `--window 0: want 1 to`,
		"perf cm --local 127.0.0.1":             `--local runs both sides: no HOST`,
		"judge":                                 `want one of --peer, --list, --agent-source and --page`,
		"perf cm --connections x":               `--connections "x": want a number`,
		"perf wrte --local":                     `operation "wrte": did you mean write?`,
		"perf --type rdx write":                 `--type "rdx": want rc, uc, ud, rd or xrc; did you mean rd?`,
		"sim --profile mixd":                    `--profile "mixd": did you mean mixed?`,
		"play e08_retries_exceded":              `there is neither a script nor a file "e08_retries_exceded"; did you mean e08_retries_exceeded?`,
		"perf write --log-level":                `--log-level needs a value: log what happens to standard error, from this level on: debug (every packet), info`,
		"perf write --qps":                      `--qps needs a value: queue pairs`,
		"perf write --duration -5s":             `--duration -5s: a time is not negative`,
		"perf cm --cm-timeout -1ms":             `--cm-timeout -1ms: a time is not negative`,
		"demo --capture=":                       `--capture is empty: give file.pcapng, or leave --capture out`,
		"perf write --qps 99999999999999999999": `--qps "99999999999999999999": want a number from -9223372036854775808 to `,
		"perf write --local --addr lo":          `--addr "lo": want one IP address, such as 127.0.0.3`,
		"perf write --local --alt lo":           `--alt "lo": want one IP address, such as 127.0.0.3`,
		"perf cm a b c":                         `softhca perf cm takes at most 1 argument; "b" is too many`,
		"top --interval 1ms":                    `--interval 1ms: want 50ms to 1h`,
		"top --once --sort pidd":                `--sort "pidd": did you mean pid?`,
		"top --view cq":                         `--view "cq": want connections, adapters, cqs, cm or mrs`,
		"sim --seed 1 --seeds 1..2":             `--seed and --seeds exclude each other`,
	} {
		code, out, errs := command(t, strings.Fields(line)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "softhca: "+want) {
			t.Errorf("%s: exit code %d, %q, want %q", line, code, errs, want)
		}
		for _, raw := range []string{"strconv", "group", "time:", "invalid argument", "unknown flag"} {
			if strings.Contains(errs, raw) {
				t.Errorf("%s: %q is a word of a library: %s", line, raw, errs)
			}
		}
	}
}

// TestReadable rounds to three digits.
func TestReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{67108864: "67.1ms", 4294967296: "4.29s", 4096: "4.1µs", 1: "1ns", time.Second: "1s", 0: "0s"} {
		if got := readable(d); got != want {
			t.Errorf("%d ns are %s, want %s", d, got, want)
		}
	}
	code, out, _ := command(t, "perf", "cm", "--help")
	if code != exitOK || !strings.Contains(out, "(default 4.29s)") {
		t.Errorf("defaults are not as people read them:\n%s", out)
	}
}

// TestReplacedCommands names the program of rdma-core for each command that it has replaced,
// wherever the command stands and whatever its options are.
func TestReplacedCommands(t *testing.T) {
	for line, program := range map[string]string{
		"rping": "rping", "rping -s -a 127.0.0.1": "rping", "ucmatose --help": "ucmatose", "udaddy -s 127.0.0.1": "udaddy", "mckey -m 239.1.2.3 -b 127.0.0.1": "mckey",
		"rdma-client -s 127.0.0.1": "rdma_client", "rdma_client": "rdma_client", "rdma-server": "rdma_server", "rdma_server -p 7471": "rdma_server",
		"--addr 127.0.0.1 rping -s": "rping", "help udaddy": "udaddy", "cmtime --local": "cmtime", "pingpong --type ud 127.0.0.1": "ibv_rc_pingpong",
	} {
		code, out, errs := command(t, strings.Fields(line)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errs, "softhca: the command ") || !strings.Contains(errs, " softhca run --addr ADDRESS -- "+program+" ...\n") {
			t.Errorf("%s: exit code %d, %q, %q", line, code, out, errs)
		}
	}
}

// TestHelpCommand shows what --help does.
func TestHelpCommand(t *testing.T) {
	for _, line := range []string{"", "perf", "completion bash", "help"} {
		code, out, errs := command(t, append([]string{"help"}, strings.Fields(line)...)...)
		_, want, _ := command(t, append(strings.Fields(line), "--help")...)
		if code != exitOK || errs != "" || out != want || !strings.Contains(out, "Flags:") {
			t.Errorf("help %s: exit code %d, %q; it is not what --help shows:\n%s", line, code, errs, out)
		}
	}
	if _, out, _ := command(t, "__complete", "help", "per"); !strings.Contains(out, "\nperf\t") {
		t.Errorf("help per is completed by %q", out)
	}
}

// TestHelpNamesValues has no help name a value by the type that it has in Go.
func TestHelpNamesValues(t *testing.T) {
	for _, c := range commands(newRootCommand()) {
		_, out, _ := command(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		for _, raw := range []string{"stringArray", "stringSlice", "intSlice"} {
			if strings.Contains(out, raw) {
				t.Errorf("%s --help: %s", c.CommandPath(), raw)
			}
		}
	}
}
