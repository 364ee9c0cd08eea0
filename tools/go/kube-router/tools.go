//go:build tools

// Package tools pins kube-router, which enforces network policies.
package tools

import (
	_ "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
)
