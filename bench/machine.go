package main

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode"
)

// machine describes the machine of the measurements, without its host name.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

// thisMachine describes the machine, as far as the system reports it.
func thisMachine() machine {
	m := machine{
		CPU: "unknown", Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Kernel: "unknown", Go: runtime.Version(),
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name, ok := cpuModel(b); ok {
			m.CPU = name
		}
	}
	return m
}

// cpuModel finds the model in Linux's description of the processors.
func cpuModel(info []byte) (string, bool) {
	for s := bufio.NewScanner(bytes.NewReader(info)); s.Scan(); {
		key, value, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// kind returns the machine as part of a file name.
func (m machine) kind() string {
	words := strings.FieldsFunc(strings.ToLower(m.CPU), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	return strings.Join(append(words, strconv.Itoa(m.Cores)+"cores"), "-")
}
