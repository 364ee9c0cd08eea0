// Command pulumi-resource-kubernetes is the Kubernetes provider of Pulumi.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

// schema reads the full schema from beside the executable: a module cannot embed a file of another module.
func schema() ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(filepath.Dir(self), "schema.json"))
}

func main() {
	text, err := schema()
	if err != nil {
		log.Fatalf("the provider's schema must lie beside its executable: %v", err)
	}
	provider.Serve("kubernetes", version.Version, text, []byte("{}"))
}
