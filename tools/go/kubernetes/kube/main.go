// Command kube is a whole Kubernetes node in one file: the name it is called by says which component it is.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// component makes only the command that is asked for: making one registers flags and metrics for the whole process.
func component(name string) *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllers.NewControllerManagerCommand()
	case "kube-proxy":
		return proxy.NewProxyCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	}
	return nil
}

func main() {
	name := filepath.Base(os.Args[0])
	command := component(name)
	if command == nil {
		fmt.Fprintf(os.Stderr, "%q is no component: link this file as kube-apiserver, kube-controller-manager, "+
			"kube-proxy, kube-scheduler or kubelet, and start the link\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
