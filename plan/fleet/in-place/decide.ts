/**
 * Whether a pod can be brought from one revision to another without being replaced, and by what change (IPU-1…13).
 *
 * The two templates are compared field by field. Metadata can always change; of the spec only images, and amounts of cpu
 * and memory where the cluster can resize. Anything else needs a new pod, and the first such field is the answer.
 */

import { entryOf, isJsonList, isJsonObject, type Json, type JsonObject } from '../../../api/base/json.ts';
import { type DiffOperation, diffJson, formatPath } from '../../../api/base/json-diff.ts';
import { parseQuantity } from '../../../api/base/quantity.ts';
import type { Container, EnvVar, Pod } from '../../../api/core/pod.ts';
import type { PodTemplate } from '../../../api/core/pod-template.ts';
import type { FeatureGates } from '../../../api/feature-gates.ts';
import { canonicalTemplateOf, revisionMark } from '../../../api/fleet/revision.ts';
import { hasInPlaceGate } from '../../../api/in-place/annotations.ts';
import { envReferences } from '../../../api/in-place/env-hash.ts';
import { graceOf } from '../../../api/in-place/grace.ts';
import { stateOf } from '../../../api/in-place/state.ts';
import { type ContainerWork, type InPlaceChange, noWork, type RefMetadata } from '../../../api/in-place/work.ts';

/** How a workload wants its pods to be updated to another revision. */
export type PodUpdatePolicy = 'ReCreate' | 'InPlaceIfPossible' | 'InPlaceOnly';

/** Why a pod cannot be updated in place. */
export interface RecreateCause {
  /** The path of the field that forces it; "" when it is no field. */
  readonly path: string;
  readonly reason:
    | 'PolicyRecreates'
    | 'NoReadinessGate'
    | 'NoOldRevision'
    | 'UnreadableRevision'
    | 'FieldNeedsNewPod'
    | 'ResizeIsOff'
    | 'QosClassChanges'
    | 'ClaimTemplatesChanged';
}

export type InPlaceDecision =
  | { readonly kind: 'inPlace'; readonly change: InPlaceChange }
  | { readonly kind: 'recreate'; readonly because: RecreateCause }
  /** The policy forbids recreation, so the pod stays as it is (IPU-8). */
  | { readonly kind: 'refused'; readonly because: RecreateCause };

/** The parts of a revision that the decision needs; the revision need not exist yet. */
export interface RevisionContents {
  readonly data: JsonObject;
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

export interface InPlaceQuestion {
  readonly policy: PodUpdatePolicy;
  /** Whether a pod without the readiness gate is recreated. Absent: it is not. */
  readonly needsGate?: boolean;
  /** The revision in the pod's label; undefined when there is none of that name. */
  readonly oldRevision: RevisionContents | undefined;
  readonly newRevision: RevisionContents;
  readonly gates: Pick<FeatureGates, 'InPlaceUpdateEnvFromMetadata' | 'InPlaceWorkloadVerticalScaling'>;
  /** Whether other PVC templates need a new pod (IPU-7). */
  readonly recreatesForClaims: boolean;
  /** Absent: the question is about the two revisions, not about a pod. */
  readonly pod?: Pod;
  /** Other revisions of the workload, by which lost work of an earlier update is recognised. */
  readonly history?: readonly RevisionContents[];
}

/** Whether the pod can be brought to the new revision in place, and by what change (IPU-1…13). */
export function decideInPlace(question: InPlaceQuestion): InPlaceDecision {
  const { policy } = question;
  if (policy === 'ReCreate') return { kind: 'recreate', because: { path: '', reason: 'PolicyRecreates' } };
  const answer = changeBetween(question);
  if (answer.kind === 'possible') return { kind: 'inPlace', change: answer.change };
  return { kind: policy === 'InPlaceOnly' ? 'refused' : 'recreate', because: answer.because };
}

type Answer =
  | { readonly kind: 'possible'; readonly change: InPlaceChange }
  | { readonly kind: 'impossible'; readonly because: RecreateCause };

function changeBetween(question: InPlaceQuestion): Answer {
  const { oldRevision, newRevision, gates, pod } = question;
  if (question.needsGate && pod && !hasInPlaceGate(pod)) return impossible('NoReadinessGate');
  if (oldRevision === undefined) return impossible('NoOldRevision');
  const [old, to] = [canonicalTemplateOf(oldRevision), canonicalTemplateOf(newRevision)];
  if (old === undefined || to === undefined) return impossible('UnreadableRevision');

  const beside = diffJson(withoutTemplate(oldRevision), withoutTemplate(newRevision));
  if (beside[0] !== undefined) return impossible('FieldNeedsNewPod', beside[0].path);
  if (claimTemplatesForbid(question)) return impossible('ClaimTemplatesChanged', ['spec', 'volumeClaimTemplates']);

  const from = pod === undefined ? old : asInPod(old, pod, question.history ?? []);
  const change = collect(diffJson(from, to), { from, to, gates });
  if (change.kind === 'impossible') return change;
  // IPU-13
  const resizes = Object.keys(change.change.resources).length > 0;
  return resizes && qosClass(old) !== qosClass(to) ? impossible('QosClassChanges', [...template, 'spec']) : change;
}

const template: readonly string[] = ['spec', 'template'];

function impossible(reason: RecreateCause['reason'], path: readonly string[] = []): Answer {
  return { kind: 'impossible', because: { path: formatPath(path), reason } };
}

function withoutTemplate({ data }: RevisionContents): JsonObject {
  const { spec, ...rest } = data;
  if (!isJsonObject(spec)) return data;
  const { template: _, ...others } = spec;
  return { ...rest, spec: others };
}

/** IPU-7: a missing hash on either side is ignored. */
function claimTemplatesForbid({ policy, recreatesForClaims, oldRevision, newRevision }: InPlaceQuestion): boolean {
  if (!recreatesForClaims || policy === 'InPlaceOnly') return false;
  const [before, after] = [oldRevision, newRevision].map(
    (revision) => revision?.metadata.annotations?.[revisionMark.claimTemplatesHash],
  );
  return before !== undefined && after !== undefined && before !== after;
}

/**
 * The template that the pod really has: the one in its label, without what an earlier update has not done yet. That
 * update's record contains the remaining work; work of a container that still has what only another revision has was
 * lost.
 */
function asInPod(old: PodTemplate, pod: Pod, history: readonly RevisionContents[]): PodTemplate {
  const left = workLeft(pod);
  let result = old;
  for (const [index, container] of objects(old, 'spec', 'containers').entries()) {
    const real = pod.spec.containers.find(({ name }) => name === container.name);
    if (real === undefined) continue;
    const at = ['spec', 'containers', String(index)];
    const isForgotten = real.image !== container.image && history.some((revision) => imageIn(revision, real));
    if (real.image !== undefined && (Object.hasOwn(left.images, real.name) || isForgotten)) {
      result = replaced(result, [...at, 'image'], real.image);
    }
    for (const kind of ['limits', 'requests'] as const) {
      for (const resource of Object.keys(entryOf(left.resources, real.name)?.[kind] ?? {})) {
        const amount = real.resources?.[kind]?.[resource];
        if (amount !== undefined) result = replaced(result, [...at, 'resources', kind, resource], amount);
      }
    }
  }
  for (const { kind, key } of left.metadata) {
    result = withEntry(result, kind, key, entryOf(pod.metadata[kind], key));
  }
  return result;
}

/** The planned work of an earlier update that is not done yet. */
function workLeft(pod: Pod): ContainerWork & { readonly metadata: readonly MetadataKey[] } {
  const state = stateOf(pod);
  const grace = graceOf(pod);
  const next = state.kind === 'value' ? state.value.next : noWork;
  const held = grace.kind === 'value' ? grace.value.change : undefined;
  const refs = [...Object.values(next.refMetadata), ...Object.values(held?.refMetadata ?? {})];
  const patched = held?.metadataPatch?.metadata;
  const keys = metadataKinds.flatMap((kind) =>
    [
      ...refs.flatMap((ref) => Object.keys(ref[kind] ?? {})),
      ...Object.keys(isJsonObject(patched) && isJsonObject(patched[kind]) ? patched[kind] : {}),
    ].map((key) => ({ kind, key })),
  );
  return {
    images: { ...held?.images, ...next.images },
    resources: { ...held?.resources, ...next.resources },
    refMetadata: {},
    metadata: keys,
  };
}

type MetadataKind = 'labels' | 'annotations';

interface MetadataKey {
  readonly kind: MetadataKind;
  readonly key: string;
}

const metadataKinds: readonly MetadataKind[] = ['labels', 'annotations'];

function imageIn(revision: RevisionContents, { name, image }: Container): boolean {
  const containers = objects(canonicalTemplateOf(revision) ?? {}, 'spec', 'containers');
  return containers.some((container) => container.name === name && container.image === image);
}

/** Sorts the differences into possible changes of a pod, or finds the first impossible one. */
function collect(
  operations: readonly DiffOperation[],
  {
    from,
    to,
    gates,
  }: { readonly from: PodTemplate; readonly to: PodTemplate; readonly gates: InPlaceQuestion['gates'] },
): Answer {
  const names = objects(from, 'spec', 'containers').map(({ name }) => (typeof name === 'string' ? name : ''));
  const images: Record<string, string> = {};
  const resources: Record<string, Record<string, Record<string, string>>> = {};
  const metadata: DiffOperation[] = [];

  for (const operation of operations) {
    const [root, list, index, field, kind, resource, ...deeper] = operation.path;
    const name = names[Number(index)];
    const value = operation.op === 'replace' && typeof operation.value === 'string' ? operation.value : undefined;
    const ofContainer = root === 'spec' && list === 'containers' && name !== undefined && value !== undefined;

    if (root === 'metadata') {
      metadata.push(operation);
    } else if (ofContainer && field === 'image' && kind === undefined) {
      images[name] = value;
    } else if (ofContainer && field === 'resources' && isResizable(kind, resource) && deeper.length === 0) {
      if (!gates.InPlaceWorkloadVerticalScaling) return impossible('ResizeIsOff', [...template, ...operation.path]);
      resources[name] = {
        ...entryOf(resources, name),
        [kind ?? '']: { ...entryOf(resources, name)?.[kind ?? ''], [resource ?? '']: value },
      };
    } else {
      return impossible('FieldNeedsNewPod', [...template, ...operation.path]);
    }
  }

  const refMetadata = gates.InPlaceUpdateEnvFromMetadata ? refMetadataOf(metadata, to) : {};
  return {
    kind: 'possible',
    change: {
      images,
      resources,
      refMetadata,
      updateEnvFromMetadata: Object.keys(refMetadata).length > 0,
      ...(metadata.length > 0 && { metadataPatch: metadataPatch(from, to, refMetadata) }),
    },
  };
}

function isResizable(kind: string | undefined, resource: string | undefined): boolean {
  return (kind === 'limits' || kind === 'requests') && (resource === 'cpu' || resource === 'memory');
}

/** IPU-10: the changed keys that containers have in their environment. */
function refMetadataOf(operations: readonly DiffOperation[], to: PodTemplate): Readonly<Record<string, RefMetadata>> {
  const result: Record<string, Record<string, Record<string, string>>> = {};
  for (const operation of operations) {
    const [, kind, key, ...deeper] = operation.path;
    // IPU-11a: a removed key, or one that is added with a whole map, is not detected.
    if (operation.op === 'remove' || typeof operation.value !== 'string' || key === undefined || deeper.length > 0) {
      continue;
    }
    for (const container of envIn(to)) {
      if (!envReferences(container).some((reference) => reference.from === kind && reference.key === key)) continue;
      const ref = entryOf(result, container.name) ?? {};
      result[container.name] = { ...ref, [kind ?? '']: { ...ref[kind ?? ''], [key]: operation.value } };
    }
  }
  return result;
}

/**
 * A strategic merge patch with the rest of the metadata, without the keys in containers' environments. Keys are removed
 * one by one, even if none stays in the template: the pod has other labels and annotations, too.
 */
function metadataPatch(
  from: PodTemplate,
  to: PodTemplate,
  refMetadata: Readonly<Record<string, RefMetadata>>,
): JsonObject {
  const patch: Record<string, Json> = {};
  for (const kind of metadataKinds) {
    const taken = new Set(Object.values(refMetadata).flatMap((ref) => Object.keys(ref[kind] ?? {})));
    const [before, after] = [entries(from, kind), entries(to, kind)];
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((key) => !taken.has(key));
    const changed = keys
      .filter((key) => entryOf(before, key) !== entryOf(after, key))
      .map((key) => [key, entryOf(after, key) ?? null] as const);
    if (changed.length > 0) patch[kind] = Object.fromEntries(changed);
  }
  const [before, after] = [finalizers(from), finalizers(to)];
  const gone = before.filter((finalizer) => !after.includes(finalizer));
  const come = after.filter((finalizer) => !before.includes(finalizer));
  if (gone.length > 0) patch['$deleteFromPrimitiveList/finalizers'] = gone;
  if (come.length > 0) patch.finalizers = come;
  return Object.keys(patch).length > 0 ? { metadata: patch } : {};
}

type QosClass = 'Guaranteed' | 'Burstable' | 'BestEffort';

/** The class that a pod, or one of this template, gets, by what its containers and init containers ask for. */
export function qosClass(podTemplate: PodTemplate): QosClass {
  const containers = [...objects(podTemplate, 'spec', 'containers'), ...objects(podTemplate, 'spec', 'initContainers')];
  const wants = containers.map(({ resources }) => ({
    limits: amounts(resources, 'limits'),
    requests: amounts(resources, 'requests'),
  }));
  if (wants.every(({ limits, requests }) => limits.size + requests.size === 0)) return 'BestEffort';
  const total = (kind: 'limits' | 'requests', resource: string) =>
    wants.reduce((sum, want) => sum + (want[kind].get(resource) ?? 0n), 0n);
  const isGuaranteed =
    wants.every(({ limits }) => limits.size === qosResources.length) &&
    qosResources.every((resource) => total('limits', resource) === total('requests', resource));
  return isGuaranteed ? 'Guaranteed' : 'Burstable';
}

const qosResources: readonly string[] = ['cpu', 'memory'];

/** Zero quantities count as absent. */
function amounts(resources: Json | undefined, kind: 'limits' | 'requests'): ReadonlyMap<string, bigint> {
  const all = isJsonObject(resources) && isJsonObject(resources[kind]) ? resources[kind] : {};
  return new Map(
    qosResources.flatMap((resource) => {
      const amount = all[resource];
      const nano = typeof amount === 'string' ? parseQuantity(amount)?.nano : undefined;
      return nano === undefined || nano === 0n ? [] : [[resource, nano] as const];
    }),
  );
}

function objects(podTemplate: PodTemplate, ...path: readonly string[]): readonly JsonObject[] {
  let value: Json | undefined = podTemplate;
  for (const piece of path) value = isJsonObject(value) ? value[piece] : undefined;
  return isJsonList(value) ? value.filter(isJsonObject) : [];
}

/** What the containers of a template see of the metadata. */
function envIn(podTemplate: PodTemplate): readonly { readonly name: string; readonly env: readonly EnvVar[] }[] {
  return objects(podTemplate, 'spec', 'containers').flatMap((container) =>
    typeof container.name === 'string'
      ? [{ name: container.name, env: objects(container, 'env').flatMap(envVar) }]
      : [],
  );
}

function envVar({ name, value, valueFrom }: JsonObject): readonly EnvVar[] {
  const fieldRef = isJsonObject(valueFrom) ? valueFrom.fieldRef : undefined;
  const fieldPath = isJsonObject(fieldRef) ? fieldRef.fieldPath : undefined;
  if (typeof name !== 'string' || typeof fieldPath !== 'string') return [];
  return [{ name, ...(typeof value === 'string' && { value }), valueFrom: { fieldRef: { fieldPath } } }];
}

function entries(podTemplate: PodTemplate, kind: MetadataKind): Readonly<Record<string, string>> {
  const map = isJsonObject(podTemplate.metadata) ? podTemplate.metadata[kind] : undefined;
  if (!isJsonObject(map)) return {};
  return Object.fromEntries(
    Object.entries(map).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}

function finalizers({ metadata }: PodTemplate): readonly string[] {
  const list = isJsonObject(metadata) ? metadata.finalizers : undefined;
  return isJsonList(list) ? list.filter((finalizer) => typeof finalizer === 'string') : [];
}

/** The template with another value at an existing path. */
function replaced(podTemplate: PodTemplate, path: readonly string[], to: Json): PodTemplate {
  const changed = at(podTemplate, path, to);
  return isJsonObject(changed) ? changed : podTemplate;
}

function at(value: Json | undefined, [first, ...rest]: readonly string[], to: Json): Json | undefined {
  if (value === undefined) return undefined;
  if (first === undefined) return to;
  if (isJsonList(value)) {
    return value.map((item, index) => (String(index) === first ? (at(item, rest, to) ?? item) : item));
  }
  return isJsonObject(value) && value[first] !== undefined ? { ...value, [first]: at(value[first], rest, to) } : value;
}

/** The template with this label or annotation, or without it. */
function withEntry(podTemplate: PodTemplate, kind: MetadataKind, key: string, value: string | undefined): PodTemplate {
  const metadata = isJsonObject(podTemplate.metadata) ? podTemplate.metadata : {};
  const { [key]: _, ...others } = entries(podTemplate, kind);
  const map = value === undefined ? others : { ...others, [key]: value };
  return { ...podTemplate, metadata: { ...metadata, [kind]: map } };
}
