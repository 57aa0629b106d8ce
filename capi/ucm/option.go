//go:build linux

package ucm

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/softhca/softhca/ib"
)

// setOption sets an option of an ID. Paths of a subnet manager's there are none of.
func (f *File) setOption(in []byte, _ int) (answer, error) {
	return answer{}, on(f, in, func(c *setOption) uint32 { return c.ID }, func(n *node, c *setOption) error {
		if c.Level != levelID {
			return fmt.Errorf("option level %d: %w", c.Level, syscall.ENOSYS)
		}
		size := uint32(4)
		if c.Optname == optionTOS || c.Optname == optionACKTimeout {
			size = 1
		}
		if c.Optlen != size {
			return fmt.Errorf("%d bytes of option %d, which has %d: %w", c.Optlen, c.Optname, size, ib.EINVAL)
		}
		v, err := fetch(c.Optval, int(size))
		if err != nil {
			return err
		}
		return n.set(c.Optname, v)
	})
}

func (n *node) set(option uint32, v []byte) error {
	switch option {
	case optionTOS:
		return n.id.SetTOS(v[0])
	case optionReuseAddr:
		return n.id.SetReuseAddr(binary.NativeEndian.Uint32(v) != 0)
	case optionAFOnly:
		return n.id.SetAFOnly(binary.NativeEndian.Uint32(v) != 0)
	case optionACKTimeout:
		return n.id.SetAckTimeout(v[0])
	default:
		return fmt.Errorf("option %d: %w", option, syscall.ENOSYS)
	}
}
