//go:build linux

package ucm

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/softhca/softhca/ib"
)

// maxOption bounds the value of an option, as the kernel's largest copy does.
const maxOption = 4 << 20

// setOption sets an option of an ID. Like the kernel, it reads the value before it checks which
// option it is for.
func (f *File) setOption(n *node, c *setOption) error {
	if c.Optlen > maxOption {
		return fmt.Errorf("%d bytes of an option: %w", c.Optlen, ib.EINVAL)
	}
	v, err := fetch(c.Optval, int(c.Optlen))
	if err != nil {
		return err
	}
	switch {
	case c.Level == levelID:
		return n.set(c.Optname, v)
	case c.Level == levelIB && c.Optname == optionPath:
		return n.setPath(v)
	default:
		return fmt.Errorf("option %d of level %d: %w", c.Optname, c.Level, syscall.ENOSYS)
	}
}

func (n *node) set(option uint32, v []byte) error {
	size := 4
	switch option {
	case optionTOS, optionACKTimeout:
		size = 1
	case optionReuseAddr, optionAFOnly:
	default:
		return fmt.Errorf("option %d: %w", option, syscall.ENOSYS)
	}
	if len(v) != size {
		return fmt.Errorf("%d bytes of option %d, which has %d: %w", len(v), option, size, ib.EINVAL)
	}
	switch option {
	case optionTOS:
		return n.id.SetTOS(v[0])
	case optionACKTimeout:
		return n.id.SetAckTimeout(v[0])
	case optionReuseAddr:
		return n.id.SetReuseAddr(binary.NativeEndian.Uint32(v) != 0)
	default:
		return n.id.SetAFOnly(binary.NativeEndian.Uint32(v) != 0)
	}
}
