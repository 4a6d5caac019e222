// Keeps one ConfigMap for each Greeting, and says so in its status.
package main

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "greet.example.com/farewell"

type reconciler struct {
	client.Client
	recorder record.EventRecorder
	name     string
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	greeting := &Greeting{}
	if err := r.Get(ctx, request.NamespacedName, greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !greeting.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(greeting, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, greeting))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(greeting, finalizer) {
		return ctrl.Result{}, r.Update(ctx, greeting)
	}
	text := greeting.Spec.Text
	if greeting.Spec.Loud {
		text = strings.ToUpper(text) + "!"
	}
	kept := &corev1.ConfigMap{}
	kept.Namespace, kept.Name = greeting.Namespace, greeting.Name
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, kept, func() error {
		kept.Data = map[string]string{"text": text}
		return controllerutil.SetControllerReference(greeting, kept, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if done != controllerutil.OperationResultNone {
		r.recorder.Eventf(greeting, corev1.EventTypeNormal, "Greeted", "configmap %s", done)
	}
	before := greeting.DeepCopyObject().(*Greeting)
	greeting.Status = GreetingStatus{ObservedGeneration: greeting.Generation, Ready: true, By: r.name}
	if before.Status == greeting.Status {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Patch(ctx, greeting, client.MergeFrom(before))
}

func (r *reconciler) register(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		Named("greetings-" + r.name).
		For(&Greeting{}).
		Owns(&corev1.ConfigMap{}).
		Complete(r)
}
