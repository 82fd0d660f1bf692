// What in-place updates keep on pods: annotations, a condition, and hashes of what the containers were started with.
// OpenKruise reads and writes the same, letter by letter, so that a pod half-way through an update can be finished by
// either. Everything here is arithmetic on one pod; what to do next is decided by the plan of the same name.
import { fromBase64, toBase64 } from '../base/base64.ts';
import { deepHash } from '../base/fnv.ts';
import { entryOf, isJsonList, isJsonObject, type Json, type JsonObject } from '../base/json.ts';
import { compareGoStrings, type GoValue, goJson, goJsonSorted, goMap } from '../base/json-go.ts';
import { perObject } from '../base/per-object.ts';
import { sameQuantity } from '../base/quantity.ts';
import { asGoStruct } from '../core/core-types.ts';
import { sameImage } from '../core/image-reference.ts';
import type { Container, ContainerStatus, Pod, ResourceRequirements } from '../core/pod.ts';
import { group, sidecarSetHashAnnotation } from '../core/well-known.ts';
import type { FeatureGates } from '../feature-gates.ts';

/** The readiness gate and pod condition that an update holds down while it swaps containers. */
export const inPlaceReadinessGate = 'InPlaceUpdateReady';

/** Why the condition is False. It has no reason when it is True. */
export const inPlaceReason = 'StartInPlaceUpdate';

/** Annotations of pods that are, or have been, updated in place. */
export const inPlaceAnnotation = {
  state: 'apps.kruise.io/inplace-update-state',
  /** There only during the grace period. */
  grace: 'apps.kruise.io/inplace-update-grace',
  /** What really runs, as the daemon of the node saw it. */
  containersMeta: 'apps.kruise.io/runtime-containers-meta',
  /** Read where the new key is absent, and removed by the next update. */
  oldState: 'inplace-update-state',
  oldGrace: 'inplace-update-grace',
} as const;

/** Environment variable by which the launch of containers is ordered; its key says the priority. */
export const launchBarrierEnv = 'KRUISE_CONTAINER_BARRIER';

/** Labels and annotations of the pod that a container sees in its environment. */
export interface RefMetadata {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Values by container name. */
type ByContainer<Value> = Readonly<Record<string, Value>>;

/** Work on containers that is still to be done. */
export interface ContainerWork {
  readonly images: ByContainer<string>;
  readonly refMetadata: ByContainer<RefMetadata>;
  /** Only the amounts that change. */
  readonly resources: ByContainer<ResourceRequirements>;
}

/** All that an update changes in a pod. */
export interface InPlaceChange extends ContainerWork {
  /**
   * A strategic merge patch of the pod's metadata, without what is in `refMetadata`. Absent: no metadata changes. Empty:
   * all of it is in `refMetadata`.
   */
  readonly metadataPatch?: JsonObject;
  readonly updateEnvFromMetadata: boolean;
}

/** The record of the last update of a pod, or of the one that is going on (IPU 4.1). */
export interface InPlaceState {
  /** What the revision label was set to, as a full name. */
  readonly revision: string;
  /** Start of the whole update, and of its grace period. */
  readonly updateTimestamp: string;
  /** Image IDs that the changed containers had when their image was patched. Absent: no image has been. */
  readonly lastContainerStatuses?: ByContainer<{ readonly imageID: string }>;
  readonly updateEnvFromMetadata: boolean;
  readonly updateResources: boolean;
  readonly updateImages: boolean;
  /** What is left for later batches. */
  readonly next: ContainerWork;
  /** Containers that have to be ready before the next batch. */
  readonly requiredReady: readonly string[];
  readonly batches: readonly { readonly timestamp: string; readonly containers: readonly string[] }[];
}

/** A change that waits for the end of the grace period (IPU 4.2). */
export interface InPlaceGrace {
  readonly revision: string;
  readonly change: InPlaceChange;
  readonly graceSeconds: number;
}

/** What the daemon reports about one container (IPU 4.3). */
export interface ContainerMeta {
  readonly name: string;
  /** `<runtime>://<id>` */
  readonly containerID: string;
  readonly restartCount: number;
  readonly plainHash: number;
  /** 0: not known. */
  readonly envHash: number;
}

/** No work. */
export const noWork: ContainerWork = { images: {}, refMetadata: {}, resources: {} };

/** Names of the containers with work to do, in no particular order. */
export function containersOf(work: ContainerWork): readonly string[] {
  return [...new Set([work.images, work.refMetadata, work.resources].flatMap((map) => Object.keys(map)))];
}

/** The record in an annotation's text. */
export function formatState(state: InPlaceState): string {
  const { next } = state;
  return goJson({
    revision: state.revision,
    updateTimestamp: state.updateTimestamp,
    lastContainerStatuses: goMap(state.lastContainerStatuses) ?? null,
    ...flags(state),
    nextContainerImages: filled(next.images),
    nextContainerRefMetadata: filled(next.refMetadata, goRefMetadata),
    nextContainerResources: filled(next.resources, goResources),
    preCheckBeforeNext:
      state.requiredReady.length > 0 ? { containersRequiredReady: [...state.requiredReady] } : undefined,
    containerBatchesRecord:
      state.batches.length > 0
        ? state.batches.map(({ timestamp, containers }) => ({ timestamp, containers: [...containers] }))
        : undefined,
  });
}

/** The record in this text; undefined for a text that is none. */
export function parseState(text: string): InPlaceState | undefined {
  const object = parseObject(text);
  if (object === undefined) return undefined;
  const last = byContainer(object.lastContainerStatuses, (status) =>
    isJsonObject(status) ? { imageID: textOf(status.imageID) } : undefined,
  );
  const check = isJsonObject(object.preCheckBeforeNext) ? object.preCheckBeforeNext.containersRequiredReady : undefined;
  return {
    revision: textOf(object.revision),
    updateTimestamp: textOf(object.updateTimestamp),
    ...(Object.keys(last).length > 0 && { lastContainerStatuses: last }),
    updateEnvFromMetadata: object.updateEnvFromMetadata === true,
    updateResources: object.updateResources === true,
    updateImages: object.updateImages === true,
    next: {
      images: byContainer(object.nextContainerImages, asText),
      refMetadata: byContainer(object.nextContainerRefMetadata, asRefMetadata),
      resources: byContainer(object.nextContainerResources, asResources),
    },
    requiredReady: texts(check),
    batches: objects(object.containerBatchesRecord).map((batch) => ({
      timestamp: textOf(batch.timestamp),
      containers: texts(batch.containers),
    })),
  };
}

/** The waiting change in an annotation's text. */
export function formatGrace({ revision, change, graceSeconds }: InPlaceGrace): string {
  const patch = change.metadataPatch;
  return goJson({
    revision,
    containerImages: filled(change.images),
    containerRefMetadata: filled(change.refMetadata, goRefMetadata),
    containerResources: filled(change.resources, goResources),
    metaDataPatch: patch && toBase64(goJsonSorted(patch)),
    updateEnvFromMetadata: change.updateEnvFromMetadata || undefined,
    graceSeconds: graceSeconds || undefined,
  });
}

/** The waiting change in this text; undefined for a text that is none. */
export function parseGrace(text: string): InPlaceGrace | undefined {
  const object = parseObject(text);
  if (object === undefined) return undefined;
  const { metaDataPatch } = object;
  const metadataPatch = typeof metaDataPatch === 'string' ? parseObject(fromBase64(metaDataPatch) ?? '') : undefined;
  if (typeof metaDataPatch === 'string' && metadataPatch === undefined) return undefined;
  return {
    revision: textOf(object.revision),
    change: {
      images: byContainer(object.containerImages, asText),
      refMetadata: byContainer(object.containerRefMetadata, asRefMetadata),
      resources: byContainer(object.containerResources, asResources),
      ...(metadataPatch !== undefined && { metadataPatch }),
      updateEnvFromMetadata: object.updateEnvFromMetadata === true,
    },
    graceSeconds: typeof object.graceSeconds === 'number' ? object.graceSeconds : 0,
  };
}

/** The daemon's report in an annotation's text. */
export function formatContainersMeta(containers: readonly ContainerMeta[]): string {
  return goJson({
    containers: containers.map(({ name, containerID, restartCount, plainHash, envHash }) => ({
      name,
      containerID,
      restartCount,
      hashes: { plainHash, extractedEnvFromMetadataHash: envHash || undefined },
    })),
  });
}

/** The daemon's report in this text; undefined for a text that is none, which counts as no report (ND §6). */
export function parseContainersMeta(text: string): readonly ContainerMeta[] | undefined {
  const object = parseObject(text);
  if (object === undefined) return undefined;
  return objects(object.containers).map((entry) => {
    const hashes = isJsonObject(entry.hashes) ? entry.hashes : {};
    return {
      name: textOf(entry.name),
      containerID: textOf(entry.containerID),
      restartCount: numberOf(entry.restartCount),
      plainHash: numberOf(hashes.plainHash),
      envHash: numberOf(hashes.extractedEnvFromMetadataHash),
    };
  });
}

/** An annotation of a pod: absent, one that nobody can read, or what it says. */
export type Annotation<Value> =
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'value'; readonly value: Value };

/** The pod's record of its last update. */
export function stateOf(pod: Pod): Annotation<InPlaceState> {
  return read(annotation(pod, inPlaceAnnotation.state) ?? annotation(pod, inPlaceAnnotation.oldState), parseState);
}

/** The pod's waiting change. */
export function graceOf(pod: Pod): Annotation<InPlaceGrace> {
  return read(annotation(pod, inPlaceAnnotation.grace) ?? annotation(pod, inPlaceAnnotation.oldGrace), parseGrace);
}

/** What the daemon reports about the pod's containers; undefined while there is no report. */
export function containersMetaOf(pod: Pod): readonly ContainerMeta[] | undefined {
  const text = annotation(pod, inPlaceAnnotation.containersMeta);
  return text === undefined ? undefined : parseContainersMeta(text);
}

/** Whether the daemon tells what runs in this pod: a kind of ours controls it, or has put containers into it (ND-20). */
export function isReportedOn({ metadata }: Pod): boolean {
  const isControlled = metadata.ownerReferences?.some(
    ({ controller, apiVersion }) => controller === true && apiVersion.startsWith(`${group.apps}/`),
  );
  return isControlled === true || metadata.annotations?.[sidecarSetHashAnnotation] !== undefined;
}

/** Whether the pod has the gate, so that an update takes it out of service. */
export function hasInPlaceGate(pod: Pod): boolean {
  return pod.spec.readinessGates?.some(({ conditionType }) => conditionType === inPlaceReadinessGate) ?? false;
}

/** An environment variable that a container takes from a label or an annotation of its pod. */
export interface EnvReference {
  readonly env: string;
  readonly from: 'labels' | 'annotations';
  readonly key: string;
}

/** The variables of a container that follow the pod's metadata (IPU-11), in the order of the container. */
export function envReferences(container: Pick<Container, 'env'>): readonly EnvReference[] {
  return (container.env ?? []).flatMap(({ name, value, valueFrom }) => {
    const path = valueFrom?.fieldRef?.fieldPath;
    if (value || path === undefined || ignoredEnv.includes(name)) return [];
    const [, from, key] = /^metadata\.(labels|annotations)\['(.*)'\]$/s.exec(path) ?? [];
    return key === undefined ? [] : [{ env: name, from: from === 'labels' ? 'labels' : 'annotations', key }];
  });
}

/** The hash of such variables and their values, in any order; `null` is hashed when there are none (IPU 4.4). */
export function envHash(variables: readonly { readonly name: string; readonly value: string }[]): number {
  const sorted = variables
    .toSorted((left, right) => compareGoStrings(left.name, right.name))
    .map(({ name, value }) => ({ name, value: value || undefined }));
  return deepHash(goJson(sorted.length > 0 ? sorted : null));
}

/** The hash that a container of this pod has when it was started with the pod's metadata of now. */
export function expectedEnvHash(container: Pick<Container, 'env'>, metadata: RefMetadata): number {
  return envHash(
    envReferences(container).map(({ env, from, key }) => ({ name: env, value: entryOf(metadata[from], key) ?? '' })),
  );
}

/**
 * The hash of the environment that an instance of this container was started with. A variable that a later one of the same
 * name hides is nowhere to be seen, and counts as if it had the value of now: a restart would not show it either.
 */
export function startedEnvHash(
  container: Pick<Container, 'env'>,
  metadata: RefMetadata,
  started: ReadonlyMap<string, string>,
): number {
  const last = new Map((container.env ?? []).map((variable) => [variable.name, variable]));
  return envHash(
    (container.env ?? []).flatMap((variable) =>
      envReferences({ env: [variable] }).map(({ env, from, key }) => {
        const now = entryOf(metadata[from], key) ?? '';
        return { name: env, value: last.get(env) === variable ? (started.get(env) ?? '') : now };
      }),
    ),
  );
}

/** The hash by which a kubelet from 1.31 on names what a container is started from (IPU 4.4). */
export function plainHash({ name, image = '' }: Pick<Container, 'name' | 'image'>): number {
  return deepHash(goJson({ image, name }));
}

/** The hash by which a kubelet up to 1.30 does so: of the whole container (IPU 4.4). */
export function wholePlainHash(container: Container): number | undefined {
  const json: unknown = container;
  return isJsonObject(json) ? deepHash(goJson(asGoStruct('Container', json))) : undefined;
}

// While a fleet is updated, each look at it asks for those of all containers that are being swapped.
const plainHashOf = perObject<Container, number>(plainHash);
const wholePlainHashOf = perObject(wholePlainHash);
const plainHashesOfRunning = perObject(({ name, image = '' }: ContainerStatus) =>
  shortForms(image).map((text) => ({ text, hash: plainHash({ name, image: text }) })),
);

/** The launch priority of a container; undefined when its launch is not ordered. */
export function launchPriority(container: Pick<Container, 'env'>): number | undefined {
  const barrier = container.env?.find(({ name }) => name === launchBarrierEnv);
  const key = barrier?.valueFrom?.configMapKeyRef?.key;
  if (barrier === undefined || key === undefined) return undefined;
  const priority = /^p_([-+]?\d+)$/.exec(key)?.[1];
  return Number(priority ?? 0);
}

/** Why the containers of an update are not what they are to be. */
export type Unfinished = {
  readonly reason: 'NotObserved' | 'NotReported' | 'EnvironmentNotRefreshed' | 'NotResized' | 'ImageNotSwapped';
  readonly containers: readonly string[];
};

/**
 * What the patched containers of an update still lack (IPU-35 to IPU-38); undefined once they are what they are to be. It
 * says nothing about the batches that are still to come.
 */
export function unfinishedContainers(pod: Pod, state: InPlaceState, gates: CompletionGates): Unfinished | undefined {
  const meta = containersMetaOf(pod);
  const names = (containers: readonly { readonly name: string }[]) => containers.map(({ name }) => name);

  if (!isObserved(pod)) {
    return { reason: 'NotObserved', containers: state.batches.flatMap(({ containers }) => containers) };
  }
  if (state.updateEnvFromMetadata) {
    const unreported = pod.spec.containers.filter((container) => reported(pod, meta, container) === undefined);
    if (unreported.length > 0) return { reason: 'NotReported', containers: names(unreported) };
    const stale = pod.spec.containers.filter(
      (container) => reported(pod, meta, container)?.envHash !== expectedEnvHash(container, pod.metadata),
    );
    if (stale.length > 0) return { reason: 'EnvironmentNotRefreshed', containers: names(stale) };
  }

  const unresized = gates.InPlaceWorkloadVerticalScaling && state.updateResources && unresizedContainers(pod);
  if (unresized) return unresized;

  if (pod.spec.containers.every((container) => startedFrom(pod, meta, container) === 'spec')) return undefined;
  const unswapped = Object.entries(state.lastContainerStatuses ?? {}).flatMap(([name, last]) =>
    isSwapped(pod, meta, name, last.imageID) ? [] : [name],
  );
  return unswapped.length > 0 ? { reason: 'ImageNotSwapped', containers: unswapped } : undefined;
}

/** One running instance of a container. */
export interface StaleContainer {
  readonly name: string;
  /** `<runtime>://<id>` */
  readonly containerID: string;
}

/**
 * The instances that run with the environment of before a change of the pod's labels or annotations, as the daemon
 * reports, and that have to be stopped for it (ND-27, IPU-48): only while an update holds the pod out of service, and
 * none that the kubelet replaces anyway, for its image. One that would not be started again is left alone.
 */
export function staleContainers(pod: Pod): readonly StaleContainer[] {
  const { metadata, spec, status } = pod;
  const gate = status?.conditions?.find(({ type }) => type === inPlaceReadinessGate);
  if (gate?.status !== 'False' || metadata.deletionTimestamp !== undefined) return [];
  if (spec.restartPolicy !== undefined && spec.restartPolicy !== 'Always') return [];
  const meta = containersMetaOf(pod);
  return spec.containers.flatMap((container) => {
    const entry = reported(pod, meta, container);
    const runs = statusOf(pod, container.name)?.state?.running !== undefined;
    if (!entry?.envHash || !runs || entry.envHash === expectedEnvHash(container, metadata)) return [];
    return isImageDue(pod, meta, container) ? [] : [{ name: entry.name, containerID: entry.containerID }];
  });
}

/** Whether the kubelet has yet to replace the instance because its image has changed. */
function isImageDue(pod: Pod, meta: readonly ContainerMeta[] | undefined, container: Container): boolean {
  const from = startedFrom(pod, meta, container);
  if (from !== 'unknown') return from === 'another';
  const state = stateOf(pod);
  const last = state.kind === 'value' ? entryOf(state.value.lastContainerStatuses, container.name) : undefined;
  return last !== undefined && !isSwapped(pod, meta, container.name, last.imageID);
}

/** The containers that do not yet have the amounts of the spec (IPU-36); undefined when all have. */
function unresizedContainers(pod: Pod): Unfinished | undefined {
  const unresized = pod.spec.containers.filter(
    ({ name, resources }) => !sameResources(resources, statusOf(pod, name)?.resources),
  );
  const hasAllStatuses = pod.status?.containerStatuses?.length === pod.spec.containers.length;
  if (unresized.length === 0 && hasAllStatuses) return undefined;
  return { reason: 'NotResized', containers: unresized.map(({ name }) => name) };
}

/**
 * Whether the kubelet has looked at the spec as it is; true where it does not tell. A status from before the change may say
 * just what is wanted, although the kubelet is about to do something else.
 */
export function isObserved({ metadata, status }: Pod): boolean {
  return (status?.observedGeneration ?? Number.POSITIVE_INFINITY) >= (metadata.generation ?? 0);
}

type CompletionGates = Pick<FeatureGates, 'InPlaceWorkloadVerticalScaling'>;

/**
 * Whether nothing of the last update is left: no grace period, no batch to come, all containers are what they are to be
 * (IPU-39). A pod that was never updated is complete; one whose record nobody can read is not.
 */
export function isInPlaceComplete(pod: Pod, gates: CompletionGates): boolean {
  const state = stateOf(pod);
  if (isInGrace(pod) || state.kind === 'unreadable') return false;
  if (state.kind === 'absent') return true;
  return containersOf(state.value.next).length === 0 && unfinishedContainers(pod, state.value, gates) === undefined;
}

/** Whether a change of the pod waits for the end of its grace period. */
export function isInGrace(pod: Pod): boolean {
  return graceOf(pod).kind !== 'absent';
}

/**
 * Whether an API server of this version, such as `v1.34.4` or `v1.32.1+gke.1`, resizes pods through a subresource
 * (IPU-14). One whose version nobody can read does not.
 */
export function hasResizeSubresource(gitVersion: string): boolean {
  const [, major, minor] = /^v?(\d+)\.(\d+)/.exec(gitVersion) ?? [];
  return Number(major) > 1 || (Number(major) === 1 && Number(minor) >= 32);
}

/** Whether two requirements ask for the same amounts, in whatever spelling. One that is absent equals no other. */
export function sameResources(
  left: ResourceRequirements | undefined,
  right: ResourceRequirements | undefined,
): boolean {
  if (right === undefined) return false;
  return (['limits', 'requests'] as const).every((kind) => sameAmounts(left?.[kind] ?? {}, right[kind] ?? {}));
}

const ignoredEnv: readonly string[] = ['SIDECARSET_VERSION', 'SIDECARSET_VERSION_ALT'];

/** The daemon's entry for a container, if it is about the instance that the status shows. */
function reported(
  pod: Pod,
  meta: readonly ContainerMeta[] | undefined,
  { name }: { readonly name: string },
): ContainerMeta | undefined {
  const status = statusOf(pod, name);
  return meta?.find((entry) => entry.name === name && entry.containerID === status?.containerID);
}

function statusOf(pod: Pod, name: string): ContainerStatus | undefined {
  return pod.status?.containerStatuses?.find((status) => status.name === name);
}

function isSwapped(pod: Pod, meta: readonly ContainerMeta[] | undefined, name: string, lastImageId: string): boolean {
  const status = statusOf(pod, name);
  const container = pod.spec.containers.find((candidate) => candidate.name === name);
  if (status === undefined || container === undefined) return false;

  const from = startedFrom(pod, meta, container);
  if (from !== 'unknown') return from === 'spec';
  if ((status.imageID ?? '') !== lastImageId) return true;
  return container.image !== undefined && status.image !== undefined && sameImage(container.image, status.image);
}

/**
 * What the hash in the daemon's report proves about the instance that the status shows. An update that overtakes another
 * may find the image of the first one running, whose ID differs from the recorded one just as well.
 */
function startedFrom(
  pod: Pod,
  meta: readonly ContainerMeta[] | undefined,
  container: Container,
): 'spec' | 'another' | 'unknown' {
  const hash = reported(pod, meta, container)?.plainHash;
  if (hash === undefined) return 'unknown';
  if (hash === plainHashOf(container) || hash === wholePlainHashOf(container)) return 'spec';

  const { name, image = '' } = container;
  const status = statusOf(pod, name);
  const others = status ? plainHashesOfRunning(status).filter(({ text }) => !sameImage(text, image)) : [];
  return others.some((other) => other.hash === hash) ? 'another' : 'unknown';
}

/** The ways in which users may have written an image that a runtime reports in full. */
function shortForms(image: string): readonly string[] {
  const untagged = image.replace(/:latest$/, '');
  return [...new Set([image, untagged])].flatMap((text) => [
    text,
    text.replace(/^docker\.io\//, ''),
    text.replace(/^docker\.io\/library\//, ''),
  ]);
}

function sameAmounts(left: Readonly<Record<string, string>>, right: Readonly<Record<string, string>>): boolean {
  return [...new Set([...Object.keys(left), ...Object.keys(right)])].every((name) => {
    const [inLeft, inRight] = [left[name], right[name]];
    return inLeft !== undefined && inRight !== undefined && sameQuantity(inLeft, inRight);
  });
}

function annotation(pod: Pod, key: string): string | undefined {
  return entryOf(pod.metadata.annotations, key);
}

function read<Value>(text: string | undefined, parse: (text: string) => Value | undefined): Annotation<Value> {
  if (text === undefined) return { kind: 'absent' };
  const value = parse(text);
  return value === undefined ? { kind: 'unreadable' } : { kind: 'value', value };
}

// Writing: Go leaves out what is empty.

function flags(state: InPlaceState): { readonly [key: string]: GoValue | undefined } {
  return {
    updateEnvFromMetadata: state.updateEnvFromMetadata || undefined,
    updateResources: state.updateResources || undefined,
    updateImages: state.updateImages || undefined,
  };
}

function filled<Value>(
  map: ByContainer<Value>,
  toGo: (value: Value) => GoValue = (value) => value as GoValue,
): GoValue | undefined {
  const entries = Object.entries(map).map(([name, value]) => [name, toGo(value)] as const);
  return entries.length > 0 ? new Map(entries) : undefined;
}

function goRefMetadata({ labels, annotations }: RefMetadata): GoValue {
  return { creationTimestamp: null, labels: filled(labels ?? {}), annotations: filled(annotations ?? {}) };
}

function goResources({ limits, requests }: ResourceRequirements): GoValue {
  return { limits: filled(limits ?? {}), requests: filled(requests ?? {}) };
}

// Reading: what has another type than it should have counts as absent.

function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function byContainer<Value>(
  value: Json | undefined,
  readOne: (value: Json | undefined) => Value | undefined,
): ByContainer<Value> {
  if (!isJsonObject(value)) return {};
  const entries = Object.entries(value).flatMap(([name, inner]) => {
    const one = readOne(inner);
    return one === undefined ? [] : [[name, one] as const];
  });
  return Object.fromEntries(entries);
}

function asText(value: Json | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function asAmount(value: Json | undefined): string | undefined {
  return typeof value === 'number' ? String(value) : asText(value);
}

function asRefMetadata(value: Json | undefined): RefMetadata | undefined {
  if (!isJsonObject(value)) return undefined;
  return {
    ...(isJsonObject(value.labels) && { labels: byContainer(value.labels, asText) }),
    ...(isJsonObject(value.annotations) && { annotations: byContainer(value.annotations, asText) }),
  };
}

function asResources(value: Json | undefined): ResourceRequirements | undefined {
  if (!isJsonObject(value)) return undefined;
  return {
    ...(isJsonObject(value.limits) && { limits: byContainer(value.limits, asAmount) }),
    ...(isJsonObject(value.requests) && { requests: byContainer(value.requests, asAmount) }),
  };
}

function textOf(value: Json | undefined): string {
  return asText(value) ?? '';
}

function numberOf(value: Json | undefined): number {
  return typeof value === 'number' ? value : 0;
}

function texts(value: Json | undefined): readonly string[] {
  return isJsonList(value) ? value.flatMap((item) => asText(item) ?? []) : [];
}

function objects(value: Json | undefined): readonly JsonObject[] {
  return isJsonList(value) ? value.filter(isJsonObject) : [];
}
