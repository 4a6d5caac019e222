// What is played, and what must come of it.
package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const count = 5

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func name(number int) string { return fmt.Sprintf("g%d", number) }

func greet(s *stage) error {
	for i := range count {
		greeting := &Greeting{ObjectMeta: named(name(i)), Spec: GreetingSpec{Text: "hello", Loud: i%2 == 1}}
		greeting.Labels = map[string]string{"odd": fmt.Sprint(i%2 == 1)}
		if err := s.direct.Create(s.ctx, greeting); err != nil {
			return err
		}
	}
	err := eventually(s.ctx, "every greeting is ready", func(ctx context.Context) bool {
		list := &GreetingList{}
		if s.direct.List(ctx, list, client.InNamespace(namespace)) != nil || len(list.Items) != count {
			return false
		}
		for _, greeting := range list.Items {
			if !greeting.Status.Ready || greeting.Status.By != "first" {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	if err := s.texts(name(1), "HELLO!"); err != nil {
		return err
	}
	return eventually(s.ctx, "events are written", func(ctx context.Context) bool {
		events := &corev1.EventList{}
		matching := client.MatchingFields{"involvedObject.kind": "Greeting", "reason": "Greeted"}
		err := s.direct.List(ctx, events, client.InNamespace(namespace), matching)
		return err == nil && len(events.Items) == count
	})
}

// texts waits until the ConfigMap of a greeting has that text.
func (s *stage) texts(name, wanted string) error {
	return eventually(s.ctx, name+" says "+wanted, func(ctx context.Context) bool {
		kept := &corev1.ConfigMap{}
		return s.direct.Get(ctx, key(name), kept) == nil && kept.Data["text"] == wanted
	})
}

func restore(s *stage) error {
	greeting := &Greeting{}
	if err := s.direct.Get(s.ctx, key(name(0)), greeting); err != nil {
		return err
	}
	before := greeting.DeepCopyObject().(*Greeting)
	greeting.Spec.Text = "good morning"
	if err := s.direct.Patch(s.ctx, greeting, client.MergeFrom(before)); err != nil {
		return err
	}
	if greeting.Generation != before.Generation+1 {
		return fmt.Errorf("generation %d after %d", greeting.Generation, before.Generation)
	}
	if err := s.texts(name(0), "good morning"); err != nil {
		return err
	}
	if err := s.direct.Delete(s.ctx, &corev1.ConfigMap{ObjectMeta: named(name(0))}); err != nil {
		return err
	}
	return s.texts(name(0), "good morning")
}

func readCache(s *stage) error {
	cached := s.leaders[0].manager.GetClient()
	return eventually(s.ctx, "the cache knows two loud and three quiet greetings", func(ctx context.Context) bool {
		loud, even := &GreetingList{}, &GreetingList{}
		indexed := cached.List(ctx, loud, client.InNamespace(namespace), client.MatchingFields{"spec.loud": "true"})
		labelled := cached.List(ctx, even, client.MatchingLabels{"odd": "false"})
		return indexed == nil && labelled == nil && len(loud.Items) == 2 && len(even.Items) == 3
	})
}

func refusals(s *stage) error {
	old, fresh := &Greeting{}, &Greeting{}
	if err := errors.Join(s.direct.Get(s.ctx, key(name(2)), old), s.direct.Get(s.ctx, key(name(2)), fresh)); err != nil {
		return err
	}
	fresh.Spec.Text = "hi"
	if err := s.direct.Update(s.ctx, fresh); err != nil {
		return err
	}
	old.Spec.Text = "hey"
	if err := s.direct.Update(s.ctx, old); !apierrors.IsConflict(err) {
		return fmt.Errorf("an old version is not a conflict: %v", err)
	}
	locked := client.MergeFromWithOptions(old.DeepCopyObject().(*Greeting), client.MergeFromWithOptimisticLock{})
	old.Spec.Loud = true
	if err := s.direct.Patch(s.ctx, old, locked); !apierrors.IsConflict(err) {
		return fmt.Errorf("a patch of an old version is not a conflict: %v", err)
	}
	wrong := metav1.ObjectMeta{UID: "no-such-uid"}.UID
	err := s.direct.Delete(s.ctx, fresh, client.Preconditions{UID: &wrong})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("a foreign uid is not a conflict: %v", err)
	}
	if err := s.direct.Create(s.ctx, &Greeting{ObjectMeta: named("empty")}); !apierrors.IsInvalid(err) {
		return fmt.Errorf("an empty text is not invalid: %v", err)
	}
	again := &Greeting{ObjectMeta: named(name(2)), Spec: GreetingSpec{Text: "twice"}}
	if err := s.direct.Create(s.ctx, again); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a name taken twice: %v", err)
	}
	if err := s.direct.Get(s.ctx, key("nobody"), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a pod that is not there: %v", err)
	}
	dry := &corev1.ConfigMap{ObjectMeta: named("dry")}
	if err := s.direct.Create(s.ctx, dry, client.DryRunAll); err != nil || dry.UID == "" {
		return fmt.Errorf("a dry run: %v, uid %q", err, dry.UID)
	}
	if err := s.direct.Get(s.ctx, key("dry"), dry); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a dry run wrote something: %v", err)
	}
	return nil
}

func applySides(s *stage) error {
	apply := func(owner string, data map[string]string, options ...client.ApplyOption) error {
		wanted := corev1ac.ConfigMap("shared", namespace).WithData(data)
		return s.direct.Apply(s.ctx, wanted, append(options, client.FieldOwner(owner))...)
	}
	if err := apply("one", map[string]string{"a": "1", "b": "1"}); err != nil {
		return err
	}
	if err := apply("two", map[string]string{"b": "2"}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a field of another manager is not a conflict: %v", err)
	}
	if err := apply("two", map[string]string{"b": "2"}, client.ForceOwnership); err != nil {
		return err
	}
	if err := apply("one", map[string]string{}); err != nil {
		return err
	}
	shared := &corev1.ConfigMap{}
	if err := s.direct.Get(s.ctx, key("shared"), shared); err != nil {
		return err
	}
	if fmt.Sprint(shared.Data) != "map[b:2]" {
		return fmt.Errorf("what is left when one lets go: %v", shared.Data)
	}
	return nil
}

func pages(s *stage) error {
	for i := range 7 {
		paged := &corev1.ConfigMap{ObjectMeta: named(fmt.Sprintf("page-%d", i))}
		paged.Labels = map[string]string{"paged": "yes"}
		if err := s.direct.Create(s.ctx, paged); err != nil {
			return err
		}
	}
	sizes, token := []int{}, ""
	for {
		list := &corev1.ConfigMapList{}
		err := s.direct.List(s.ctx, list, client.InNamespace(namespace), client.MatchingLabels{"paged": "yes"},
			client.Limit(3), client.Continue(token))
		if err != nil {
			return err
		}
		sizes = append(sizes, len(list.Items))
		if token = list.Continue; token == "" {
			break
		}
	}
	if fmt.Sprint(sizes) != "[3 3 1]" {
		return fmt.Errorf("pages of %v", sizes)
	}
	all := &corev1.ConfigMap{}
	err := s.direct.DeleteAllOf(s.ctx, all, client.InNamespace(namespace), client.MatchingLabels{"paged": "yes"})
	if err != nil {
		return err
	}
	left := &metav1.PartialObjectMetadataList{}
	left.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	err = s.direct.List(s.ctx, left, client.InNamespace(namespace), client.MatchingLabels{"paged": "yes"})
	if err == nil && len(left.Items) > 0 {
		err = fmt.Errorf("%d are left", len(left.Items))
	}
	return err
}

func subresources(s *stage) error {
	labels := map[string]string{"app": "web"}
	web := &appsv1.Deployment{ObjectMeta: named("web")}
	web.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	web.Spec.Template.Labels = labels
	web.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "nginx:1"}}
	if err := s.direct.Create(s.ctx, web); err != nil {
		return err
	}
	// Whoever drives deployments writes its status meanwhile.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return scaleTo(s, web, 3) })
	if err != nil {
		return err
	}
	single := &corev1.Pod{ObjectMeta: named("single")}
	single.Spec.Containers = []corev1.Container{{Name: "app", Image: "nginx:1"}}
	if err := s.direct.Create(s.ctx, single); err != nil {
		return err
	}
	if err := s.direct.SubResource("eviction").Create(s.ctx, single, &policyv1.Eviction{}); err != nil {
		return err
	}
	return eventually(s.ctx, "the evicted pod goes", func(ctx context.Context) bool {
		err := s.direct.Get(ctx, key("single"), single)
		return apierrors.IsNotFound(err)
	})
}

func scaleTo(s *stage, web *appsv1.Deployment, replicas int32) error {
	scale := &autoscalingv1.Scale{}
	if err := s.direct.SubResource("scale").Get(s.ctx, web, scale); err != nil {
		return err
	}
	if scale.Spec.Replicas != 1 || scale.Status.Selector != "app=web" {
		return fmt.Errorf("a scale of %d for %q", scale.Spec.Replicas, scale.Status.Selector)
	}
	scale.Spec.Replicas = replicas
	return s.direct.SubResource("scale").Update(s.ctx, web, client.WithSubResourceBody(scale))
}

func deploy(s *stage) error {
	if s.bare {
		return nil
	}
	cached := s.leaders[0].manager.GetClient()
	return eventually(s.ctx, "three pods are ready in the cache", func(ctx context.Context) bool {
		pods, ready := &corev1.PodList{}, 0
		if cached.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": "web"}) != nil {
			return false
		}
		for _, pod := range pods.Items {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		return ready == 3
	})
}

func farewell(s *stage) error {
	greeting := &Greeting{ObjectMeta: named(name(4))}
	if err := s.direct.Delete(s.ctx, greeting, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	err := eventually(s.ctx, "the greeting is gone", func(ctx context.Context) bool {
		return apierrors.IsNotFound(s.direct.Get(ctx, key(name(4)), greeting))
	})
	if err != nil || s.bare {
		return err
	}
	return eventually(s.ctx, "its configmap is gone", func(ctx context.Context) bool {
		return apierrors.IsNotFound(s.direct.Get(ctx, key(name(4)), &corev1.ConfigMap{}))
	})
}

func takeOver(s *stage) error {
	first, second := s.leaders[0], s.leaders[1]
	first.stop()
	if err := <-first.ended; err != nil {
		return err
	}
	<-second.manager.Elected()
	late := &Greeting{ObjectMeta: named("late"), Spec: GreetingSpec{Text: "late"}}
	if err := s.direct.Create(s.ctx, late); err != nil {
		return err
	}
	err := eventually(s.ctx, "the second manager answers", func(ctx context.Context) bool {
		return s.direct.Get(ctx, key("late"), late) == nil && late.Status.By == "second"
	})
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{}
	if err := s.direct.Get(s.ctx, key("greeter"), lease); err != nil {
		return err
	}
	if lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions < 1 {
		return fmt.Errorf("lease transitions: %v", lease.Spec.LeaseTransitions)
	}
	second.stop()
	return <-second.ended
}

// wire holds after everything: built-in kinds were asked for in protobuf, and nobody was refused.
func wire(s *stage) error {
	seen := s.traffic.seen()
	if !s.bare && seen["protobuf got"] > 0 {
		return fmt.Errorf("answers in protobuf, from a server that writes none: %v", seen)
	}
	for _, some := range []string{"protobuf asked", "protobuf sent", "json got", "watches", "bookmarks asked"} {
		if seen[some] == 0 {
			return fmt.Errorf("no %s in %v", some, seen)
		}
	}
	if seen["media types refused"] > 0 {
		return fmt.Errorf("media types were refused: %v", seen)
	}
	if seen["initial events asked"] > 0 && seen["initial events ended"] == 0 {
		return fmt.Errorf("initial events never ended: %v", seen)
	}
	return nil
}
