"""Types of the Kubernetes API 0.32 as Go declares them, with the fields in struct order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

Fields: TypeAlias = tuple[tuple[str, bool, str], ...]  # (JSON name, always written, kind)

_FIELD: Final = re.compile(r"(\w+)([!?])(\S+)")

# Every struct that PodTemplateSpec and PersistentVolumeClaim reach. Embedded structs are inlined;
# a line that is indented goes on with the type before it.
#
#   name!kind   always written
#   name?kind   left out when zero or empty (a pointer: only when nil)
#   +Type       the fields of a type that comes before
#   kinds       str bool i32 i64 Time Qty IntOrStr RawJSON, []X list, map<X> map, *X pointer,
#               or the name of another type (a struct that is no pointer is always written)
_TABLE: Final = """
AWSElasticBlockStoreVolumeSource: volumeID!str, fsType?str, partition?i32, readOnly?bool
Affinity: nodeAffinity?*NodeAffinity, podAffinity?*PodAffinity, podAntiAffinity?*PodAntiAffinity
AppArmorProfile: type!str, localhostProfile?*str
AzureDiskVolumeSource: diskName!str, diskURI!str, cachingMode?*str, fsType?*str, readOnly?*bool,
  kind?*str
AzureFileVolumeSource: secretName!str, shareName!str, readOnly?bool
CSIVolumeSource: driver!str, readOnly?*bool, fsType?*str, volumeAttributes?map<str>,
  nodePublishSecretRef?*LocalObjectReference
Capabilities: add?[]str, drop?[]str
CephFSVolumeSource: monitors![]str, path?str, user?str, secretFile?str,
  secretRef?*LocalObjectReference, readOnly?bool
CinderVolumeSource: volumeID!str, fsType?str, readOnly?bool, secretRef?*LocalObjectReference
ClusterTrustBundleProjection: name?*str, signerName?*str, labelSelector?*LabelSelector,
  optional?*bool, path!str
ConfigMapEnvSource: name?str, optional?*bool
ConfigMapKeySelector: name?str, key!str, optional?*bool
ConfigMapProjection: name?str, items?[]KeyToPath, optional?*bool
ConfigMapVolumeSource: name?str, items?[]KeyToPath, defaultMode?*i32, optional?*bool
Container: name!str, image?str, command?[]str, args?[]str, workingDir?str, ports?[]ContainerPort,
  envFrom?[]EnvFromSource, env?[]EnvVar, resources!ResourceRequirements,
  resizePolicy?[]ContainerResizePolicy, restartPolicy?*str, volumeMounts?[]VolumeMount,
  volumeDevices?[]VolumeDevice, livenessProbe?*Probe, readinessProbe?*Probe, startupProbe?*Probe,
  lifecycle?*Lifecycle, terminationMessagePath?str, terminationMessagePolicy?str,
  imagePullPolicy?str, securityContext?*SecurityContext, stdin?bool, stdinOnce?bool, tty?bool
ContainerPort: name?str, hostPort?i32, containerPort!i32, protocol?str, hostIP?str
ContainerResizePolicy: resourceName!str, restartPolicy!str
DownwardAPIProjection: items?[]DownwardAPIVolumeFile
DownwardAPIVolumeFile: path!str, fieldRef?*ObjectFieldSelector,
  resourceFieldRef?*ResourceFieldSelector, mode?*i32
DownwardAPIVolumeSource: items?[]DownwardAPIVolumeFile, defaultMode?*i32
EmptyDirVolumeSource: medium?str, sizeLimit?*Qty
EnvFromSource: prefix?str, configMapRef?*ConfigMapEnvSource, secretRef?*SecretEnvSource
EnvVar: name!str, value?str, valueFrom?*EnvVarSource
EnvVarSource: fieldRef?*ObjectFieldSelector, resourceFieldRef?*ResourceFieldSelector,
  configMapKeyRef?*ConfigMapKeySelector, secretKeyRef?*SecretKeySelector
EphemeralContainer: +Container, targetContainerName?str
EphemeralVolumeSource: volumeClaimTemplate?*PersistentVolumeClaimTemplate
ExecAction: command?[]str
FCVolumeSource: targetWWNs?[]str, lun?*i32, fsType?str, readOnly?bool, wwids?[]str
FlexVolumeSource: driver!str, fsType?str, secretRef?*LocalObjectReference, readOnly?bool,
  options?map<str>
FlockerVolumeSource: datasetName?str, datasetUUID?str
GCEPersistentDiskVolumeSource: pdName!str, fsType?str, partition?i32, readOnly?bool
GRPCAction: port!i32, service!*str
GitRepoVolumeSource: repository!str, revision?str, directory?str
GlusterfsVolumeSource: endpoints!str, path!str, readOnly?bool
HTTPGetAction: path?str, port!IntOrStr, host?str, scheme?str, httpHeaders?[]HTTPHeader
HTTPHeader: name!str, value!str
HostAlias: ip!str, hostnames?[]str
HostPathVolumeSource: path!str, type?*str
ISCSIVolumeSource: targetPortal!str, iqn!str, lun!i32, iscsiInterface?str, fsType?str,
  readOnly?bool, portals?[]str, chapAuthDiscovery?bool, chapAuthSession?bool,
  secretRef?*LocalObjectReference, initiatorName?*str
ImageVolumeSource: reference?str, pullPolicy?str
KeyToPath: key!str, path!str, mode?*i32
LabelSelector: matchLabels?map<str>, matchExpressions?[]LabelSelectorRequirement
LabelSelectorRequirement: key!str, operator!str, values?[]str
Lifecycle: postStart?*LifecycleHandler, preStop?*LifecycleHandler
LifecycleHandler: exec?*ExecAction, httpGet?*HTTPGetAction, tcpSocket?*TCPSocketAction,
  sleep?*SleepAction
LocalObjectReference: name?str
ManagedFieldsEntry: manager?str, operation?str, apiVersion?str, time?*Time, fieldsType?str,
  fieldsV1?*RawJSON, subresource?str
ModifyVolumeStatus: targetVolumeAttributesClassName?str, status!str
NFSVolumeSource: server!str, path!str, readOnly?bool
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution?*NodeSelector,
  preferredDuringSchedulingIgnoredDuringExecution?[]PreferredSchedulingTerm
NodeSelector: nodeSelectorTerms![]NodeSelectorTerm
NodeSelectorRequirement: key!str, operator!str, values?[]str
NodeSelectorTerm: matchExpressions?[]NodeSelectorRequirement,
  matchFields?[]NodeSelectorRequirement
ObjectFieldSelector: apiVersion?str, fieldPath!str
ObjectMeta: name?str, generateName?str, namespace?str, selfLink?str, uid?str, resourceVersion?str,
  generation?i64, creationTimestamp!Time, deletionTimestamp?*Time,
  deletionGracePeriodSeconds?*i64, labels?map<str>, annotations?map<str>,
  ownerReferences?[]OwnerReference, finalizers?[]str, managedFields?[]ManagedFieldsEntry
OwnerReference: apiVersion!str, kind!str, name!str, uid!str, controller?*bool,
  blockOwnerDeletion?*bool
PersistentVolumeClaim: kind?str, apiVersion?str, metadata!ObjectMeta,
  spec!PersistentVolumeClaimSpec, status!PersistentVolumeClaimStatus
PersistentVolumeClaimCondition: type!str, status!str, lastProbeTime!Time, lastTransitionTime!Time,
  reason?str, message?str
PersistentVolumeClaimSpec: accessModes?[]str, selector?*LabelSelector,
  resources!VolumeResourceRequirements, volumeName?str, storageClassName?*str, volumeMode?*str,
  dataSource?*TypedLocalObjectReference, dataSourceRef?*TypedObjectReference,
  volumeAttributesClassName?*str
PersistentVolumeClaimStatus: phase?str, accessModes?[]str, capacity?map<Qty>,
  conditions?[]PersistentVolumeClaimCondition, allocatedResources?map<Qty>,
  allocatedResourceStatuses?map<str>, currentVolumeAttributesClassName?*str,
  modifyVolumeStatus?*ModifyVolumeStatus
PersistentVolumeClaimTemplate: metadata!ObjectMeta, spec!PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource: claimName!str, readOnly?bool
PhotonPersistentDiskVolumeSource: pdID!str, fsType?str
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution?[]PodAffinityTerm,
  preferredDuringSchedulingIgnoredDuringExecution?[]WeightedPodAffinityTerm
PodAffinityTerm: labelSelector?*LabelSelector, namespaces?[]str, topologyKey!str,
  namespaceSelector?*LabelSelector, matchLabelKeys?[]str, mismatchLabelKeys?[]str
PodAntiAffinity: +PodAffinity
PodDNSConfig: nameservers?[]str, searches?[]str, options?[]PodDNSConfigOption
PodDNSConfigOption: name?str, value?*str
PodOS: name!str
PodReadinessGate: conditionType!str
PodResourceClaim: name!str, resourceClaimName?*str, resourceClaimTemplateName?*str
PodSchedulingGate: name!str
PodSecurityContext: seLinuxOptions?*SELinuxOptions, windowsOptions?*WindowsSecurityContextOptions,
  runAsUser?*i64, runAsGroup?*i64, runAsNonRoot?*bool, supplementalGroups?[]i64,
  supplementalGroupsPolicy?*str, fsGroup?*i64, sysctls?[]Sysctl, fsGroupChangePolicy?*str,
  seccompProfile?*SeccompProfile, appArmorProfile?*AppArmorProfile, seLinuxChangePolicy?*str
PodSpec: volumes?[]Volume, initContainers?[]Container, containers![]Container,
  ephemeralContainers?[]EphemeralContainer, restartPolicy?str, terminationGracePeriodSeconds?*i64,
  activeDeadlineSeconds?*i64, dnsPolicy?str, nodeSelector?map<str>, serviceAccountName?str,
  serviceAccount?str, automountServiceAccountToken?*bool, nodeName?str, hostNetwork?bool,
  hostPID?bool, hostIPC?bool, shareProcessNamespace?*bool, securityContext?*PodSecurityContext,
  imagePullSecrets?[]LocalObjectReference, hostname?str, subdomain?str, affinity?*Affinity,
  schedulerName?str, tolerations?[]Toleration, hostAliases?[]HostAlias, priorityClassName?str,
  priority?*i32, dnsConfig?*PodDNSConfig, readinessGates?[]PodReadinessGate,
  runtimeClassName?*str, enableServiceLinks?*bool, preemptionPolicy?*str, overhead?map<Qty>,
  topologySpreadConstraints?[]TopologySpreadConstraint, setHostnameAsFQDN?*bool, os?*PodOS,
  hostUsers?*bool, schedulingGates?[]PodSchedulingGate, resourceClaims?[]PodResourceClaim,
  resources?*ResourceRequirements
PodTemplateSpec: metadata!ObjectMeta, spec!PodSpec
PortworxVolumeSource: volumeID!str, fsType?str, readOnly?bool
PreferredSchedulingTerm: weight!i32, preference!NodeSelectorTerm
Probe: exec?*ExecAction, httpGet?*HTTPGetAction, tcpSocket?*TCPSocketAction, grpc?*GRPCAction,
  initialDelaySeconds?i32, timeoutSeconds?i32, periodSeconds?i32, successThreshold?i32,
  failureThreshold?i32, terminationGracePeriodSeconds?*i64
ProjectedVolumeSource: sources![]VolumeProjection, defaultMode?*i32
QuobyteVolumeSource: registry!str, volume!str, readOnly?bool, user?str, group?str, tenant?str
RBDVolumeSource: monitors![]str, image!str, fsType?str, pool?str, user?str, keyring?str,
  secretRef?*LocalObjectReference, readOnly?bool
ResourceClaim: name!str, request?str
ResourceFieldSelector: containerName?str, resource!str, divisor!Qty
ResourceRequirements: limits?map<Qty>, requests?map<Qty>, claims?[]ResourceClaim
SELinuxOptions: user?str, role?str, type?str, level?str
ScaleIOVolumeSource: gateway!str, system!str, secretRef!*LocalObjectReference, sslEnabled?bool,
  protectionDomain?str, storagePool?str, storageMode?str, volumeName?str, fsType?str,
  readOnly?bool
SeccompProfile: type!str, localhostProfile?*str
SecretEnvSource: name?str, optional?*bool
SecretKeySelector: name?str, key!str, optional?*bool
SecretProjection: name?str, items?[]KeyToPath, optional?*bool
SecretVolumeSource: secretName?str, items?[]KeyToPath, defaultMode?*i32, optional?*bool
SecurityContext: capabilities?*Capabilities, privileged?*bool, seLinuxOptions?*SELinuxOptions,
  windowsOptions?*WindowsSecurityContextOptions, runAsUser?*i64, runAsGroup?*i64,
  runAsNonRoot?*bool, readOnlyRootFilesystem?*bool, allowPrivilegeEscalation?*bool,
  procMount?*str, seccompProfile?*SeccompProfile, appArmorProfile?*AppArmorProfile
ServiceAccountTokenProjection: audience?str, expirationSeconds?*i64, path!str
SleepAction: seconds!i64
StorageOSVolumeSource: volumeName?str, volumeNamespace?str, fsType?str, readOnly?bool,
  secretRef?*LocalObjectReference
Sysctl: name!str, value!str
TCPSocketAction: port!IntOrStr, host?str
Toleration: key?str, operator?str, value?str, effect?str, tolerationSeconds?*i64
TopologySpreadConstraint: maxSkew!i32, topologyKey!str, whenUnsatisfiable!str,
  labelSelector?*LabelSelector, minDomains?*i32, nodeAffinityPolicy?*str, nodeTaintsPolicy?*str,
  matchLabelKeys?[]str
TypedLocalObjectReference: apiGroup!*str, kind!str, name!str
TypedObjectReference: apiGroup!*str, kind!str, name!str, namespace?*str
Volume: name!str, hostPath?*HostPathVolumeSource, emptyDir?*EmptyDirVolumeSource,
  gcePersistentDisk?*GCEPersistentDiskVolumeSource,
  awsElasticBlockStore?*AWSElasticBlockStoreVolumeSource, gitRepo?*GitRepoVolumeSource,
  secret?*SecretVolumeSource, nfs?*NFSVolumeSource, iscsi?*ISCSIVolumeSource,
  glusterfs?*GlusterfsVolumeSource, persistentVolumeClaim?*PersistentVolumeClaimVolumeSource,
  rbd?*RBDVolumeSource, flexVolume?*FlexVolumeSource, cinder?*CinderVolumeSource,
  cephfs?*CephFSVolumeSource, flocker?*FlockerVolumeSource, downwardAPI?*DownwardAPIVolumeSource,
  fc?*FCVolumeSource, azureFile?*AzureFileVolumeSource, configMap?*ConfigMapVolumeSource,
  vsphereVolume?*VsphereVirtualDiskVolumeSource, quobyte?*QuobyteVolumeSource,
  azureDisk?*AzureDiskVolumeSource, photonPersistentDisk?*PhotonPersistentDiskVolumeSource,
  projected?*ProjectedVolumeSource, portworxVolume?*PortworxVolumeSource,
  scaleIO?*ScaleIOVolumeSource, storageos?*StorageOSVolumeSource, csi?*CSIVolumeSource,
  ephemeral?*EphemeralVolumeSource, image?*ImageVolumeSource
VolumeDevice: name!str, devicePath!str
VolumeMount: name!str, readOnly?bool, recursiveReadOnly?*str, mountPath!str, subPath?str,
  mountPropagation?*str, subPathExpr?str
VolumeProjection: secret?*SecretProjection, downwardAPI?*DownwardAPIProjection,
  configMap?*ConfigMapProjection, serviceAccountToken?*ServiceAccountTokenProjection,
  clusterTrustBundle?*ClusterTrustBundleProjection
VolumeResourceRequirements: limits?map<Qty>, requests?map<Qty>
VsphereVirtualDiskVolumeSource: volumePath!str, fsType?str, storagePolicyName?str,
  storagePolicyID?str
WeightedPodAffinityTerm: weight!i32, podAffinityTerm!PodAffinityTerm
WindowsSecurityContextOptions: gmsaCredentialSpecName?*str, gmsaCredentialSpec?*str,
  runAsUserName?*str, hostProcess?*bool
CloneSetSpecV1alpha1: replicas?*i32, selector?*LabelSelector, template!PodTemplateSpec,
  volumeClaimTemplates?[]PersistentVolumeClaim, scaleStrategy!CloneSetScaleStrategyV1alpha1,
  updateStrategy!CloneSetUpdateStrategyV1alpha1, revisionHistoryLimit?*i32, minReadySeconds?i32,
  lifecycle?*CloneSetLifecycle, progressDeadlineSeconds?*i32
CloneSetScaleStrategyV1alpha1: podsToDelete?[]str, maxUnavailable?*IntOrStr, disablePVCReuse?bool
CloneSetUpdateStrategyV1alpha1: type?str, partition?*IntOrStr, maxUnavailable?*IntOrStr,
  maxSurge?*IntOrStr, paused?bool, priorityStrategy?*UpdatePriorityStrategy,
  scatterStrategy?[]UpdateScatterTerm, inPlaceUpdateStrategy?*InPlaceUpdateStrategy
CloneSetSpecV1beta1: replicas?*i32, selector?*LabelSelector, template!PodTemplateSpec,
  volumeClaimTemplates?[]PersistentVolumeClaim, scaleStrategy!CloneSetScaleStrategyV1beta1,
  updateStrategy!CloneSetUpdateStrategyV1beta1, revisionHistoryLimit?*i32, minReadySeconds?i32,
  lifecycle?*CloneSetLifecycle, progressDeadlineSeconds?*i32
CloneSetScaleStrategyV1beta1: podsToDelete?[]str, maxUnavailable?*IntOrStr, enablePVCReuse!bool,
  excludePreparingDelete?bool
CloneSetUpdateStrategyV1beta1: type?str, rollingUpdate?*CloneSetRollingUpdate
CloneSetRollingUpdate: podUpdatePolicy?str, partition?*IntOrStr, maxUnavailable?*IntOrStr,
  maxSurge?*IntOrStr, paused?bool, priorityStrategy?*UpdatePriorityStrategy,
  scatterStrategy?[]UpdateScatterTerm, inPlaceUpdateStrategy?*InPlaceUpdateStrategy
AdvancedStatefulSetSpec: replicas?*i32, selector?*LabelSelector, template!PodTemplateSpec,
  volumeClaimTemplates?[]PersistentVolumeClaim,
  volumeClaimUpdateStrategy!VolumeClaimUpdateStrategy, serviceName?str, podManagementPolicy?str,
  updateStrategy!AdvancedStatefulSetUpdateStrategy, revisionHistoryLimit?*i32,
  reserveOrdinals?[]IntOrStr, lifecycle?*CloneSetLifecycle,
  scaleStrategy?*AdvancedStatefulSetScaleStrategy,
  persistentVolumeClaimRetentionPolicy?*ClaimRetentionPolicy, ordinals?*StatefulSetOrdinals
VolumeClaimUpdateStrategy: type?str
AdvancedStatefulSetUpdateStrategy: type?str, rollingUpdate?*AdvancedStatefulSetRollingUpdate
AdvancedStatefulSetRollingUpdate: partition?*i32, maxUnavailable?*IntOrStr, podUpdatePolicy?str,
  paused?bool, unorderedUpdate?*UnorderedUpdate, inPlaceUpdateStrategy?*InPlaceUpdateStrategy,
  minReadySeconds?*i32
UnorderedUpdate: priorityStrategy?*UpdatePriorityStrategy
AdvancedStatefulSetScaleStrategy: maxUnavailable?*IntOrStr
ClaimRetentionPolicy: whenDeleted?str, whenScaled?str
StatefulSetOrdinals: start!i32
UpdatePriorityStrategy: orderPriority?[]UpdatePriorityOrderTerm,
  weightPriority?[]UpdatePriorityWeightTerm
UpdatePriorityOrderTerm: orderedKey!str
UpdatePriorityWeightTerm: weight!i32, matchSelector!LabelSelector
UpdateScatterTerm: key!str, value!str
InPlaceUpdateStrategy: gracePeriodSeconds?i32, imagePreDownloadParallelism?*IntOrStr,
  imagePreDownloadTimeoutSeconds?*i32, imagePreDownloadMinUpdatedReadyPods?*i32
CloneSetLifecycle: preDelete?*LifecycleHook, inPlaceUpdate?*LifecycleHook,
  preNormal?*LifecycleHook
LifecycleHook: labelsHandler?map<str>, finalizersHandler?[]str, markPodNotReady?bool
SidecarSetSpecV1alpha1: selector?*LabelSelector, namespace?str, namespaceSelector?*LabelSelector,
  initContainers?[]SidecarContainer, containers?[]SidecarContainer, volumes?[]Volume,
  updateStrategy!SidecarSetUpdateStrategy, injectionStrategy!SidecarSetInjectionStrategy,
  imagePullSecrets?[]LocalObjectReference, revisionHistoryLimit?*i32,
  patchPodMetadata?[]SidecarSetPatchPodMetadata
SidecarSetSpecV1beta1: selector?*LabelSelector, namespaceSelector?*LabelSelector,
  initContainers?[]SidecarContainer, containers?[]SidecarContainer, volumes?[]Volume,
  updateStrategy!SidecarSetUpdateStrategy, injectionStrategy!SidecarSetInjectionStrategy,
  imagePullSecrets?[]LocalObjectReference, revisionHistoryLimit?*i32,
  patchPodMetadata?[]SidecarSetPatchPodMetadata, customVersion?str
SidecarContainer: +Container, podInjectPolicy?str,
  upgradeStrategy!SidecarContainerUpgradeStrategy,
  shareVolumePolicy!ShareVolumePolicy, shareVolumeDevicePolicy?*ShareVolumePolicy,
  transferEnv?[]TransferEnvVar, resourcesPolicy?*ResourcesPolicy
SidecarContainerUpgradeStrategy: upgradeType?str, hotUpgradeEmptyImage?str
ShareVolumePolicy: type?str
TransferEnvVar: sourceContainerName?str, sourceContainerNameFrom?*SourceContainerNameSource,
  envName?str, envNames?[]str
SourceContainerNameSource: fieldRef?*ObjectFieldSelector
ResourcesPolicy: targetContainersMode!str, targetContainersNameRegex?str,
  resourcesExpr!ResourcesExpr
ResourcesExpr: limits?*ResourceExpressions, requests?*ResourceExpressions
ResourceExpressions: cpu?str, memory?str
SidecarSetUpdateStrategy: type?str, paused?bool, selector?*LabelSelector, partition?*IntOrStr,
  maxUnavailable?*IntOrStr, priorityStrategy?*UpdatePriorityStrategy,
  scatterStrategy?[]UpdateScatterTerm
SidecarSetInjectionStrategy: paused?bool, revision?*SidecarSetInjectRevision
SidecarSetInjectRevision: customVersion?*str, revisionName?*str, policy?str
SidecarSetPatchPodMetadata: annotations?map<str>, patchPolicy?str
SidecarSetUpgradeSpec: updateTimestamp!Time, hash!str, sidecarSetName!str, sidecarList![]str,
  controllerRevision?str
SidecarSetInPlaceUpdateState: revision!str, updateTimestamp!Time,
  lastContainerStatuses!map<SidecarSetContainerStatus>
SidecarSetContainerStatus: imageID?str
"""


def parse(table: str) -> dict[str, Fields]:
    """Return the fields of each type of a table. Raises ValueError for a line that is no type."""
    types: dict[str, Fields] = {}
    for line in table.replace("\n  ", " ").strip().splitlines():
        name, _, fields = line.partition(": ")
        if name in types:
            raise ValueError(f"{name} appears twice")
        types[name] = tuple(field for text in fields.split(", ") for field in _fields(text, types))
    return types


def _fields(text: str, types: Mapping[str, Fields]) -> Fields:
    return types[text[1:]] if text[:1] == "+" else (_field(text),)


def _field(text: str) -> tuple[str, bool, str]:
    found = _FIELD.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no field")
    return found[1], found[2] == "!", found[3]


TYPES: Final = parse(_TABLE)

# Names of fields that Go leaves out when they are false or zero, and whose absence means just that.
# `paused` and what follows it are of the specs of workloads and Services.
OMITTED_ZEROS: Final = frozenset(
    name
    for fields in TYPES.values()
    for name, always, kind in fields
    if not always and kind in {"bool", "i32", "i64"}
) | {"paused", "minReadySeconds", "publishNotReadyAddresses"}
