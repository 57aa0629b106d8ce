package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestCompletion asks as a shell does what may come next.
func TestCompletion(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"per|", "perf"},
		{"perf |", "write-imm"},
		{"perf write --type |", "ud"},
		{"perf write --mtu |", "4096"},
		{"perf --type |", "rd"},
		{"states --type |", "gsi"},
		{"demo --transport |", "raw"},
		{"demo --log-level |", "debug"},
		{"demo --addr |", "127.0.0.1"},
		{"run --addr |", "127.0.0.2"},
		{"perf write --static-rate |", "2.5"},
		{"decode --op |", "RNR"},
		{"decode --op |", "RC_SEND_ONLY"},
		{"play e08|", "e08_retries_exceeded"},
		{"explain --live |", "lo"},
		{"sim --|", "--profile"},
		{"top --view |", "adapters"},
		{"top --sort |", "p99"},
		{"top --view cqs --sort |", "high-water"},
		{"run -- gre|", "grep"},
		{"run gre|", "grep"},
		{"run --addr 127.0.0.1 -- gre|", "grep"},
	} {
		args := append([]string{"__complete"}, strings.Split(strings.TrimSuffix(c.line, "|"), " ")...)
		code, out, _ := command(t, args...)
		found := false
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			found = found || word == c.want
		}
		if code != exitOK || !found {
			t.Errorf("%s: exit code %d, no %s in\n%s", c.line, code, c.want, out)
		}
	}
	for line, not := range map[string]string{"sim --": "--addr", "decode --": "--capture", "--": "--fault", "completion bash --": "--addr"} {
		if _, out, _ := command(t, append([]string{"__complete"}, strings.Fields(line)...)...); strings.Contains(out, not+"\t") {
			t.Errorf("%s is completed by %s, which would be refused:\n%s", line, not, out)
		}
	}
	for _, c := range commands(newRootCommand()) { // by each option, with what it is for
		line := append(strings.Fields(c.CommandPath())[1:], "-")
		if _, out, _ := command(t, append([]string{"__complete"}, line...)...); strings.Contains(out, "`") || !strings.Contains(out, "--") {
			t.Errorf("%s has descriptions with quotes, or none:\n%s", strings.Join(line, " "), out)
		}
	}
	if _, out, _ := command(t, "--help"); !strings.Contains(out, "completion") {
		t.Error("help does not tell of completion")
	}
	if code, out, errs := command(t, "completion", "bash"); code != exitOK || errs != "" || !strings.Contains(out, "complete") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// TestCompletionOfFiles asks which files may come next. The shells add directories.
func TestCompletionOfFiles(t *testing.T) {
	for line, want := range map[string]string{ // the last line: 8 are files with these ends, 4 is nothing, 0 any file
		"explain |":        "pcap\npcapng\npcap.gz\npcapng.gz\n:8\n",
		"decode |":         "pcap\npcapng\npcap.gz\npcapng.gz\n:8\n",
		"explain x.pcap |": ":4\n",
		"decode x.pcap |":  ":4\n",
		"explain --html |": "html\n:8\n",
		"demo --capture |": "pcapng\n:8\n",
		"run --capture |":  "pcapng\n:8\n",
	} {
		args := append([]string{"__complete"}, strings.Split(strings.TrimSuffix(line, "|"), " ")...)
		if _, out, _ := command(t, args...); out != want {
			t.Errorf("%s: completed by %q, want %q", line, out, want)
		}
	}
	for _, line := range []string{"run -- /bin/gre", "run -- ./", "run -- grep /etc/hos"} { // files are the shell's business
		if _, out, _ := command(t, append([]string{"__complete"}, strings.Fields(line)...)...); out != ":0\n" {
			t.Errorf("%s is completed by %q, want files", line, out)
		}
	}
}

// TestCompletionInShells has real shells complete a command line with the generated
// scripts.
func TestCompletionInShells(t *testing.T) {
	self, err := os.Executable()
	must.Do(t, err)
	bin := t.TempDir()
	must.Do(t, os.Symlink(self, filepath.Join(bin, "softhca")))
	must.Do(t, os.WriteFile(filepath.Join(bin, "rdma-program-of-mine"), nil, 0o755))
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("HOME", t.TempDir())
	for _, shell := range []struct{ name, script string }{
		// What bash-completion's function of this name does, for a shell that lacks it.
		{"bash", `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }
compopt() { :; }
source <(softhca completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
read -ra COMP_WORDS <<<"$1"; [[ $1 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]}-1))
__start_softhca
printf '%s\n' "${COMPREPLY[@]}"`},
		{"fish", `softhca completion fish | source
complete --do-complete "$argv[1]"`},
		// zsh completes only at a terminal: this starts it in a pseudo-terminal and reads the output.
		{"zsh", `zmodload zsh/zpty
zpty terminal "TERM=dumb PS1= zsh -f -i"
zpty -w terminal $'autoload -U compinit; compinit -u -D; source <(softhca completion zsh); print RE""ADY'
zpty -r -m terminal _ '*READY*'
zpty -w -n terminal "$1"$'\t'
zpty -w -n terminal $'\C-A: \C-E; print DO""NE\n'
zpty -r -m terminal seen '*DONE*'
print -r -- "$seen"`},
	} {
		t.Run(shell.name, func(t *testing.T) {
			path, err := exec.LookPath(shell.name)
			if err != nil {
				// Few have all of them.
				t.Skip(err)
			}
			for line, want := range map[string]string{
				"softhca per": "perf", "softhca perf write --type u": "uc", "softhca run -- rdma-program-of": "rdma-program-of-mine",
				"softhca run --fault-s": "--fault-seed",
			} {
				args := []string{"-c", shell.script, shell.name, line}
				if shell.name == "fish" {
					args = []string{"-c", shell.script, line}
				}
				cmd := exec.CommandContext(t.Context(), path, args...)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "`") {
					t.Errorf("%s: %v, no %s in\n%s", line, err, want, out)
				}
			}
		})
	}
}
