// Package unpack writes tars below a folder, and makes tars of files.
//
// A tar is somebody else's words. Into takes every name below the folder it was given and
// nowhere else: it goes from folder to folder by open descriptors, never through a link that
// lies there, so that neither the tar nor somebody who changes the tree meanwhile leads it out.
// Links are made with the text they have in the tar, and are not looked at again.
//
// The package knows no protocol, no image and no sandbox.
package unpack

import (
	"errors"
	"fmt"
)

// Options of Into. The zero value of each field is its default, and nil is all of them.
type Options struct {
	Owners   Owners // who files belong to
	UID, GID int    // of OwnersOne

	Replace Replace // what an entry may put itself in the place of
	Follow  bool    // a name may go through links, which are taken as if the folder were /; else that is ErrLink

	// Whiteouts takes entries as an OCI layer means them: ".wh.NAME" removes NAME and ".wh..wh..opq"
	// all there is in its folder, of what lay there before, never of what this tar made.
	Whiteouts bool

	SkipDevices bool // leave devices out; else one is ErrKind. They are never made
	SkipFIFOs   bool // leave named pipes out; else they are made
	SetID       bool // keep the set-uid and set-gid bits of files; else they are taken away
	Xattrs      bool // set user.* attributes, and security.capability as root, where the file system can

	KeepRoot bool   // an entry for the folder itself changes nothing about it
	Top      string // every name's first part becomes this, and all must have the same; "": as they are

	Max Limits

	// Progress is called after each entry, and within large ones, with what there is so far.
	Progress func(Result)
	// Global is called with the records of each global header.
	Global func(map[string]string)
}

// Limits of a tar. Zero is none, where it does not say otherwise. What passes one is a *EntryError that is ErrLimit.
type Limits struct {
	Bytes   int64 // of all files together, as they are claimed: a hole counts
	Entries int64 // global headers and what is left out too, and folders that are made without an entry
	Depth   int   // folders of a name; 0: 1024
	Path    int   // bytes of a name, or of a link's text; 0: 4095
}

const (
	defaultDepth = 1024
	defaultPath  = 4095
)

// Owners say whom files belong to.
type Owners int

const (
	OwnersNone Owners = iota // whoever unpacks
	OwnersOne                // all to UID and GID
	OwnersKeep               // to the tar's numeric owners
	OwnersTry                // to the tar's numeric owners where that can be, else to whoever unpacks
)

// Replace says what an entry may put itself in the place of. A file or link always
// replaces another, and a folder becomes one with the folder that is there. Devices, pipes and sockets are
// replaced by ReplaceAll alone: /dev/null is no place for a file.
type Replace int

const (
	ReplaceSame  Replace = iota // nothing else: that is ErrExists
	ReplaceEmpty                // whatever it is, but a folder that is not empty, and no device, pipe or socket
	ReplaceAll                  // whatever it is, with all in it
)

// Result is what was unpacked, or packed.
type Result struct {
	Entries int64
	Folders int64    // that were made on the way, without an entry
	Bytes   int64    // of files' content
	Skipped []string // what was left out, and why, where that is not its kind: the first 100
	Left    int64    // how much was left out
}

const maxSkipped = 100

func (r *Result) skip(name string) {
	if r.Left++; len(r.Skipped) < maxSkipped {
		r.Skipped = append(r.Skipped, name)
	}
}

var (
	// ErrName: a name that leads out of the folder, or is none.
	ErrName = errors.New("is no name below the folder")
	// ErrLink: a name that goes through a link.
	ErrLink = errors.New("goes through a symbolic link")
	// ErrKind: an entry of a kind that is not taken.
	ErrKind = errors.New("is of a kind that is not taken")
	// ErrExists: something else has the name.
	ErrExists = errors.New("something else has its name")
	// ErrLimit: a limit is passed.
	ErrLimit = errors.New("passes the limit")
	// ErrFormat: no tar, or one that is cut off.
	ErrFormat = errors.New("malformed tar")
)

// An EntryError is what went wrong with an entry. Its Error quotes the name.
type EntryError struct {
	Name string
	Err  error
}

func (e *EntryError) Error() string { return fmt.Sprintf("%.300q: %v", e.Name, e.Err) }
func (e *EntryError) Unwrap() error { return e.Err }
