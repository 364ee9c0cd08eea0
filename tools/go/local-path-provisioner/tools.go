//go:build tools

// Package tools pins the provisioner of local volumes.
package tools

import (
	_ "github.com/rancher/local-path-provisioner"
)
