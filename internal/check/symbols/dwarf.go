package symbols

import (
	"debug/dwarf"
	"slices"
)

const (
	maxEntries = 1 << 22 // entries of a compilation unit that are read for an address
	maxOrigins = 8       // entries that refer to each other for the name of a function
	maxInlined = 32      // functions that are inlined in each other
)

// linkageNameMIPS is what DW_AT_linkage_name was before DWARF 4.
const linkageNameMIPS dwarf.Attr = 0x2007

// lines returns the functions at an address, from the debug information.
func (o *object) lines(addr uint64) (frames []Frame) {
	if o.dwarf == nil {
		return nil
	}
	r := o.dwarf.Reader()
	unit, err := r.SeekPC(addr)
	if err != nil {
		return nil
	}
	file, line, files := o.position(unit, addr)
	for _, e := range slices.Backward(o.functions(r, addr)) {
		name := o.name(e)
		if name == "" {
			return nil
		}
		frames = append(frames, Frame{Function: name, File: file, Line: line})
		file, line = "", 0
		if n, ok := e.Val(dwarf.AttrCallFile).(int64); ok && n >= 0 && n < int64(len(files)) && files[n] != nil {
			file = files[n].Name
		}
		if n, ok := e.Val(dwarf.AttrCallLine).(int64); ok && n > 0 && n < 1<<31 {
			line = int(n)
		}
	}
	return frames
}

// position returns the source line of an address, and the source files of its unit.
func (o *object) position(unit *dwarf.Entry, addr uint64) (file string, line int, files []*dwarf.LineFile) {
	r, err := o.dwarf.LineReader(unit)
	if err != nil || r == nil {
		return "", 0, nil
	}
	var e dwarf.LineEntry
	if err := r.SeekPC(addr, &e); err == nil && e.File != nil {
		file, line = e.File.Name, e.Line
	}
	return file, line, r.Files()
}

// functions returns the entry of the function at an address, and then those of the functions that
// are inlined there. The reader is at the first child of the unit.
func (o *object) functions(r *dwarf.Reader, addr uint64) (found []*dwarf.Entry) {
	depth := 0
	for range maxEntries {
		e, err := r.Next()
		if err != nil || e == nil {
			return found
		}
		enter := false
		switch e.Tag {
		case 0: // the end of a list of children
			if depth--; depth < 0 {
				return found
			}
			continue
		case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine:
			if enter = o.covers(e, addr); enter {
				found = append(found, e)
			}
			if len(found) > maxInlined {
				return found
			}
		case dwarf.TagLexDwarfBlock:
			enter = o.covers(e, addr)
		case dwarf.TagNamespace, dwarf.TagModule, dwarf.TagClassType, dwarf.TagStructType:
			enter = len(found) == 0
		}
		switch {
		case enter && e.Children:
			depth++
		case enter && e.Tag == dwarf.TagSubprogram:
			return found
		case e.Children:
			r.SkipChildren()
		}
	}
	return found
}

// covers reports whether an address belongs to an entry.
func (o *object) covers(e *dwarf.Entry, addr uint64) bool {
	ranges, err := o.dwarf.Ranges(e)
	return err == nil && slices.ContainsFunc(ranges, func(r [2]uint64) bool { return addr >= r[0] && addr < r[1] })
}

// name returns the name of a function: that of the linker, which has the namespaces, if it has one.
func (o *object) name(e *dwarf.Entry) (name string) {
	for range maxOrigins {
		for _, a := range [...]dwarf.Attr{dwarf.AttrLinkageName, linkageNameMIPS} {
			if s, ok := e.Val(a).(string); ok && s != "" {
				return demangled(s)
			}
		}
		if s, ok := e.Val(dwarf.AttrName).(string); ok && name == "" {
			name = s
		}
		origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			origin, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset)
		}
		if !ok {
			return name
		}
		r := o.dwarf.Reader()
		r.Seek(origin)
		next, err := r.Next()
		if err != nil || next == nil {
			return name
		}
		e = next
	}
	return name
}
