package top

import (
	"time"
	"unicode"
)

// Code is a key.
type Code uint8

// The keys. Rune is a key with a character.
const (
	KeyRune Code = iota
	KeyUp
	KeyDown
	KeyLeft
	KeyRight
	KeyPageUp
	KeyPageDown
	KeyHome
	KeyEnd
	KeyEnter
	KeyEscape
	KeyTab
	KeyBacktab
	KeyBackspace
	KeyF1
	KeyF3
	KeyF4
	KeyF6
	KeyF10
	KeyInterrupt // Ctrl-C
	KeyRedraw    // Ctrl-L
)

// Key is a key that was pressed.
type Key struct {
	Code Code
	Rune rune // of KeyRune
}

// maxInput is the maximum number of characters of a search or a filter.
const maxInput = 200

// intervals are what + and - choose among.
var intervals = [...]time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// Key handles a key. It reports whether the user quits.
func (u *UI) Key(k Key) (quit bool) {
	u.note = ""
	if k.Code == KeyInterrupt || k.Code == KeyF10 {
		return true
	}
	switch u.mode {
	case modeSearch, modeFilter:
		u.typed(k)
		return false
	case modeSort:
		u.sortKey(k)
		return false
	case modeHelp, modeDetail:
		return u.pageKey(k)
	}
	return u.tableKey(k)
}

// tableKey handles a key at a table.
func (u *UI) tableKey(k Key) (quit bool) {
	t := u.table()
	switch k.Code {
	case KeyRune:
		return u.runeKey(k.Rune)
	case KeyTab, KeyRight:
		u.open((u.at + 1) % numViews)
	case KeyBacktab, KeyLeft:
		u.open((u.at + numViews - 1) % numViews)
	case KeyUp:
		u.selectRow(t.selected - 1)
	case KeyDown:
		u.selectRow(t.selected + 1)
	case KeyPageUp:
		u.selectRow(t.selected - u.page())
	case KeyPageDown:
		u.selectRow(t.selected + u.page())
	case KeyHome:
		u.selectRow(0)
	case KeyEnd:
		u.selectRow(len(t.rows) - 1)
	case KeyEnter:
		if len(t.rows) > 0 && (u.at == viewConnections || u.at == viewAdapters) {
			u.mode, u.scroll, u.detail = modeDetail, 0, t.key
		}
	case KeyEscape:
		u.filter = ""
		u.arrange()
	case KeyF1:
		u.help()
	case KeyF3:
		u.mode, u.input = modeSearch, ""
	case KeyF4:
		u.mode, u.input = modeFilter, u.filter
	case KeyF6:
		u.mode, u.menu = modeSort, t.order.column
	}
	return false
}

// runeKey handles a character at a table.
func (u *UI) runeKey(r rune) (quit bool) {
	t := u.table()
	switch r {
	case 'q', 'Q':
		return true
	case 'h', '?':
		u.help()
	case '/':
		u.mode, u.input = modeSearch, ""
	case 'n':
		u.find(1)
	case '\\':
		u.mode, u.input = modeFilter, u.filter
	case '<':
		u.sortBy((t.order.column + len(t.columns) - 1) % len(t.columns))
	case '>':
		u.sortBy((t.order.column + 1) % len(t.columns))
	case 'I':
		t.order.inverted = !t.order.inverted
		u.arrange()
	case ' ', '+', '-':
		u.clockKey(r)
	case 'k':
		u.selectRow(t.selected - 1)
	case 'j':
		u.selectRow(t.selected + 1)
	default:
		if r >= '1' && r < '1'+numViews {
			u.open(int(r - '1'))
		}
	}
	return false
}

// clockKey handles the keys that are about time, which mean the same at tables and details.
func (u *UI) clockKey(r rune) {
	switch r {
	case ' ':
		u.paused = !u.paused
	case '+':
		for _, d := range intervals {
			if d > u.interval {
				u.interval = d
				return
			}
		}
	case '-':
		for i := len(intervals) - 1; i >= 0; i-- {
			if intervals[i] < u.interval {
				u.interval = intervals[i]
				return
			}
		}
	}
}

// open shows a table.
func (u *UI) open(i int) {
	u.at = i
	u.arrange()
}

// sortBy sorts the table by a column.
func (u *UI) sortBy(column int) {
	u.table().order = order{column: column}
	u.arrange()
}

// help shows the help.
func (u *UI) help() { u.before, u.mode, u.scroll = u.mode, modeHelp, 0 }

// sortKey handles a key at the menu of columns.
func (u *UI) sortKey(k Key) {
	n := len(u.table().columns)
	switch {
	case k.Code == KeyUp || k.Rune == 'k':
		u.menu = max(u.menu-1, 0)
	case k.Code == KeyDown || k.Rune == 'j':
		u.menu = min(u.menu+1, n-1)
	case k.Code == KeyHome || k.Code == KeyPageUp:
		u.menu = 0
	case k.Code == KeyEnd || k.Code == KeyPageDown:
		u.menu = n - 1
	case k.Code == KeyEnter:
		u.mode = modeTable
		u.sortBy(u.menu)
	case k.Code == KeyEscape || k.Code == KeyF6 || k.Rune == 'q':
		u.mode = modeTable
	}
}

// pageKey handles a key at a detail or at the help.
func (u *UI) pageKey(k Key) (quit bool) {
	switch k.Code {
	case KeyUp:
		u.scroll--
	case KeyDown:
		u.scroll++
	case KeyPageUp:
		u.scroll -= u.bodyHeight()
	case KeyPageDown:
		u.scroll += u.bodyHeight()
	case KeyHome:
		u.scroll = 0
	case KeyEnd:
		u.scroll = len(u.bodyLines())
	case KeyEnter, KeyEscape, KeyBackspace:
		u.leave()
	case KeyF1:
		if u.mode == modeHelp {
			u.leave()
		} else {
			u.help()
		}
	case KeyRune:
		return u.pageRune(k.Rune)
	}
	u.clampScroll()
	return false
}

// pageRune handles a character at a detail or at the help.
func (u *UI) pageRune(r rune) (quit bool) {
	switch r {
	case 'q', 'Q':
		return true
	case 'h', '?':
		if u.mode == modeHelp {
			u.leave()
		} else {
			u.help()
		}
	case 'k':
		u.scroll--
	case 'j':
		u.scroll++
	default:
		u.clockKey(r)
	}
	u.clampScroll()
	return false
}

// leave returns from the help or from a detail.
func (u *UI) leave() {
	if u.mode == modeHelp {
		u.mode, u.scroll = u.before, 0
	} else {
		u.mode = modeTable
	}
}

// typed handles a key while the user types a search or a filter. A filter takes effect at once, as
// does a search.
func (u *UI) typed(k Key) {
	switch k.Code {
	case KeyRune:
		if unicode.IsPrint(k.Rune) && len([]rune(u.input)) < maxInput {
			u.input += string(k.Rune)
		}
	case KeyBackspace:
		if r := []rune(u.input); len(r) > 0 {
			u.input = string(r[:len(r)-1])
		}
	case KeyEnter, KeyUp, KeyDown:
		u.mode = modeTable
		return
	case KeyEscape:
		if u.mode == modeFilter {
			u.filter = ""
			u.arrange()
		}
		u.mode = modeTable
		return
	case KeyF3:
		if u.mode == modeSearch {
			u.find(1)
		}
		return
	default:
		return
	}
	if u.mode == modeFilter {
		u.filter = u.input
		u.arrange()
		return
	}
	u.search = u.input
	u.find(0)
}
