package sysfs

import (
	"fmt"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// Description holds the contents of an image.
type Description struct {
	Name     string // of the device, such as softhca0
	Identity device.Identity
}

// maxName bounds the name of a device, as the kernel does.
const maxName = 63

// Check returns an error if d cannot be shown.
func (d *Description) Check() error {
	if d.Name == "" || len(d.Name) > maxName || strings.Trim(d.Name, nameLetters) != "" {
		return fmt.Errorf("device name %q: want 1 to %d letters, digits, - and _: %w", d.Name, maxName, ib.EINVAL)
	}
	return nil
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
