package environ

import "os"

// systemTemp is the directory for temporary files of a privileged program.
const systemTemp = "/tmp"

// Getenv returns the value of a variable. It is empty if there is none, and in a
// privileged program.
func Getenv(name string) string {
	if Privileged() {
		return ""
	}
	return os.Getenv(name)
}

// ConfigDir returns the directory of the user's configuration. It is empty if the user
// has none, and in a privileged program.
func ConfigDir() string {
	if Privileged() {
		return ""
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return dir
}

// TempDir returns the directory for temporary files, which is /tmp in a privileged
// program.
func TempDir() string {
	if Privileged() {
		return systemTemp
	}
	return os.TempDir()
}
