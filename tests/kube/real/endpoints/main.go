// Command endpoints runs the two controllers of kube-controller-manager that say where a Service's
// pods are, against the cluster of a kubeconfig.
package main

import (
	"context"
	"os"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
)

const (
	workers  = 1
	perSlice = 100 // the default of --max-endpoints-per-slice
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	config.UserAgent = "kube-controller-manager"
	config.QPS = 1000
	config.Burst = 1000
	ctx, client := context.Background(), kubernetes.NewForConfigOrDie(config)
	known := informers.NewSharedInformerFactory(client, 0)
	core, slices := known.Core().V1(), known.Discovery().V1().EndpointSlices()
	old := endpoint.NewEndpointController(
		ctx, core.Pods(), core.Services(), core.Endpoints(), client, 0)
	now := endpointslice.NewController(
		ctx, core.Pods(), core.Services(), core.Nodes(), slices, perSlice, client, 0)
	known.Start(ctx.Done())
	go old.Run(ctx, workers)
	now.Run(ctx, workers)
}
