//go:build tools

// Package tools pins the two ends of the tunnel.
package tools

import (
	_ "github.com/fatedier/frp/cmd/frpc"
	_ "github.com/fatedier/frp/cmd/frps"
)
