package mad

import (
	"math/rand/v2"
	"testing"
)

func TestC1_Header(t *testing.T) {
	m := MAD{
		0x01, 0x07, 0x02, 0x83, 0x12, 0x1c, 0x34, 0x56, 1, 2, 3, 4, 5, 6, 7, 8,
		0x00, 0x13, 0xff, 0xff, 0x9a, 0xbc, 0xde, 0xf0,
	}
	want := Header{
		BaseVersion: 1, Class: ClassCM, ClassVersion: 2, Method: 0x83, Status: 0x121c, ClassSpecific: 0x3456,
		TID: 0x0102030405060708, AttrID: AttrREP, AttrMod: 0x9abcdef0,
	}
	if got := m.Header(); got != want {
		t.Errorf("the header is read as %+v, want %+v", got, want)
	}
	n := MAD{18: 0xee, 24: 0xaa, 255: 0xbb}
	n.PutHeader(want)
	m[18], m[19], m[24], m[255] = 0, 0, 0xaa, 0xbb // reserved bytes are sent as zero
	if n != m {
		t.Errorf("the header is written as\n% x, want\n% x", n[:HeaderSize], m[:HeaderSize])
	}
}

func TestC1_HeaderKeepsEveryField(t *testing.T) {
	t.Logf("seed %d", testSeed)
	r := rand.New(rand.NewPCG(testSeed, 2))
	for range 1000 {
		m := randomMAD(r)
		n := m
		n.PutHeader(m.Header())
		m[18], m[19] = 0, 0
		if n != m {
			t.Fatalf("read and written, the header is\n% x, want\n% x", n[:HeaderSize], m[:HeaderSize])
		}
	}
}

// TestC1_CMHeader shows the header of CM messages: class 7 version 2, Send.
func TestC1_CMHeader(t *testing.T) {
	var got MAD
	got.PutHeader(CMHeader(AttrDREQ, 0x00000002ac008a19))
	want := MAD{1, 7, 2, 3, 11: 2, 12: 0xac, 0x00, 0x8a, 0x19, 17: 0x15}
	if got != want {
		t.Errorf("the header is % x, want % x", got[:HeaderSize], want[:HeaderSize])
	}
}

func TestDataIsTheDatagrams(t *testing.T) {
	var m MAD
	m.Data()[0], m.Data()[DataSize-1] = 1, 2
	if m[HeaderSize] != 1 || m[Size-1] != 2 {
		t.Error("what is written to Data is not in the datagram")
	}
}
