// Adds the containers of SidecarSets to a new pod (SCS 5.2), in this order:
//
//   1. annotations of `patchPodMetadata`
//   2. containers: resources, shared mounts and devices, environment variables, the pairs of hot-upgrade sidecars
//   3. init containers, containers, volumes and pull secrets are merged into the pod
//   4. marks
//
// Where a SidecarSet cannot be injected, its annotation `windlass.io/injection-failure` decides whether the pod is
// rejected or gets the other SidecarSets only.

import { isJsonList, type Json, type JsonObject, objectOr } from '../../base/json.ts';
import { compareGoStrings } from '../../base/json-go.ts';
import { injectedEnv, sidecarSetAnnotation } from '../marks.ts';
import { type ContainerList, textsIn } from '../read.ts';
import { plainContainer } from '../trial.ts';
import {
  hotPair,
  isHotUpgrade,
  isNativeSidecar,
  type SidecarContainer,
  type SidecarSet,
  sidecarSetDefault,
} from '../types.ts';
import type { ChosenContent } from './choose.ts';
import { InjectionError } from './failure.ts';
import { type InjectedSet, markAnnotations, patchedAnnotations, versionEnv } from './metadata.ts';
import { computedResources, countedContainers } from './resources.ts';
import { isInjected, objectsIn, type SharedPod, sharedWith, transferredEnv } from './share.ts';

/** A SidecarSet to inject, or why its content could not be found. */
export interface SetToInject {
  readonly set: SidecarSet;
  readonly chosen: ChosenContent | { readonly problem: string };
}

export interface InjectionOptions {
  /** Gate EnableSortSidecarContainerByName. */
  readonly sort: boolean;
  /** The present time as RFC 3339 with whole seconds. */
  readonly now: string;
}

/** A SidecarSet that could not be injected. */
export interface InjectionFailure {
  readonly set: string;
  readonly why: string;
}

export type Injection =
  /** `ignored`: SidecarSets whose failure does not reject the pod. */
  | { readonly kind: 'injected'; readonly pod: JsonObject; readonly ignored: readonly InjectionFailure[] }
  | { readonly kind: 'rejected'; readonly failure: InjectionFailure };

/** The pod with these SidecarSets, in this order. */
export function injectSets(pod: JsonObject, sets: readonly SetToInject[], options: InjectionOptions): Injection {
  const ignored: InjectionFailure[] = [];
  let left = sets;
  for (;;) {
    if (left.length === 0) return { kind: 'injected', pod, ignored };
    const result = attempt(pod, left, options);
    if (!('failed' in result)) return { kind: 'injected', pod: result.pod, ignored };
    const tolerated = result.failed.filter(({ source }) => isIgnored(source.set));
    // Without the others a SidecarSet may be injectable, so these are decided about first.
    const [strict] = tolerated.length === 0 ? result.failed : [];
    if (strict !== undefined) return { kind: 'rejected', failure: failureOf(strict) };
    ignored.push(...tolerated.map(failureOf));
    const gone = new Set(tolerated.map(({ source }) => source));
    left = left.filter((one) => !gone.has(one));
  }
}

function failureOf({ source, why }: Failed): InjectionFailure {
  return { set: source.set.metadata.name, why };
}

function isIgnored({ metadata }: SidecarSet): boolean {
  return metadata.annotations?.[sidecarSetAnnotation.injectionFailure] === 'Ignore';
}

/** A SidecarSet of this pod while it is injected. */
interface Work extends InjectedSet {
  readonly source: SetToInject;
}

interface Failed {
  readonly source: SetToInject;
  readonly why: string;
}

/** `failed`: at least one, and every one that fails in this company, as each further attempt takes as long as this one. */
type Attempt = { readonly pod: JsonObject } | { readonly failed: readonly Failed[] };

function attempt(pod: JsonObject, sets: readonly SetToInject[], { sort, now }: InjectionOptions): Attempt {
  const failed: Failed[] = [];
  /** Whatever a stored SidecarSet may contain, its own failure policy decides about the pod. */
  const tried = <Result>(sources: readonly SetToInject[], work: () => Result): readonly Result[] => {
    try {
      return [work()];
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      failed.push(...sources.map((source) => ({ source, why })));
      return [];
    }
  };

  const metadata = objectOr(pod.metadata);
  const spec = objectOr(pod.spec);
  let annotations = textsIn(metadata.annotations);
  const works = sets.flatMap((source) =>
    tried([source], (): Work => {
      const { set, chosen } = source;
      if ('problem' in chosen) throw new InjectionError(chosen.problem);
      annotations = patchedAnnotations(annotations, chosen.content);
      return { source, name: set.metadata.name, chosen };
    }),
  );

  const shared: SharedPod = { metadata: { ...metadata, annotations }, containers: objectsIn(spec.containers) };
  let counted: readonly JsonObject[] | undefined;
  const countedOnce = () => {
    counted ??= countedContainers(spec, definedNames(works));
    return counted;
  };
  const build = (list: ContainerList, sidecars: readonly SidecarContainer[] = []) =>
    sidecars.flatMap((sidecar) => builtContainers(list, sidecar, shared, countedOnce));
  const built = works.flatMap(({ source, chosen: { content } }) =>
    tried([source], () => ({
      content,
      containers: build('containers', content.containers),
      initContainers: build('initContainers', content.initContainers),
    })),
  );
  if (failed.length > 0) return { failed };

  const [result] = tried(sets, () => {
    const marked = markAnnotations(annotations, works, now);
    return { ...pod, metadata: { ...metadata, annotations: marked }, spec: mergedSpec(spec, built, sort) };
  });
  return result === undefined ? { failed } : { pod: result };
}

/** Every name that a SidecarSet of the pod defines, as pods have it, too. */
function definedNames(works: readonly Work[]): ReadonlySet<string> {
  const all = works.flatMap(({ chosen: { content } }) => [
    ...(content.containers ?? []),
    ...(content.initContainers ?? []),
  ]);
  return new Set(all.flatMap(({ name }) => [String(name), ...hotPair(String(name))]));
}

/** A container as the pod gets it, and its place. */
interface Built {
  readonly container: JsonObject;
  readonly isBefore: boolean;
}

/** One container, or the pair of a hot-upgrade sidecar (SHU-10). */
function builtContainers(
  list: ContainerList,
  sidecar: SidecarContainer,
  pod: SharedPod,
  counted: () => readonly JsonObject[],
): readonly Built[] {
  const { resourcesPolicy, podInjectPolicy } = sidecar;
  const { injectPolicy } = sidecarSetDefault;
  const shared = sharedWith(sidecar, pod);
  const own = isInjected(sidecar) ? objectsIn(sidecar.env) : [...objectsIn(sidecar.env), injectedEnv];
  const env = withCopied(withCopied(own, transferredEnv(sidecar, pod)), shared.env);
  const mounts = [...objectsIn(sidecar.volumeMounts), ...shared.mounts];
  const devices = [...objectsIn(sidecar.volumeDevices), ...shared.devices];
  const container: JsonObject = {
    ...plainContainer(sidecar),
    env,
    ...(mounts.length > 0 && { volumeMounts: mounts }),
    ...(devices.length > 0 && { volumeDevices: devices }),
    ...(resourcesPolicy !== undefined && { resources: computedResources(resourcesPolicy, counted()) }),
  };
  const isBefore = (podInjectPolicy || injectPolicy[list]) === injectPolicy.containers;
  const isInit = list === 'initContainers' && !isNativeSidecar(sidecar);
  if (isInit || !isHotUpgrade(sidecar)) return [{ container, isBefore }];
  const images = [container.image, sidecar.upgradeStrategy?.hotUpgradeEmptyImage ?? ''];
  return hotPair(String(sidecar.name)).map((name, index) => ({
    container: { ...container, name, image: images[index], env: [...env, ...versionEnv(name)] },
    isBefore,
  }));
}

/** Variables whose name is there already are not copied (SCS-29). */
function withCopied(own: readonly JsonObject[], copied: readonly JsonObject[]): readonly JsonObject[] {
  const names = new Set(own.map(({ name }) => name));
  return [...own, ...copied.filter(({ name }) => names.size !== names.add(name).size)];
}

interface BuiltSet {
  readonly content: ChosenContent['content'];
  readonly containers: readonly Built[];
  readonly initContainers: readonly Built[];
}

function mergedSpec(spec: JsonObject, sets: readonly BuiltSet[], sort: boolean): JsonObject {
  const containers = sets.flatMap((set) => set.containers);
  // Init containers are sorted with and without the gate (SCS-26).
  const initContainers = sets.flatMap((set) => set.initContainers).toSorted(byName);
  const volumes = mergedVolumes(objectsIn(spec.volumes), sets);
  const secrets = mergedSecrets(objectsIn(spec.imagePullSecrets), sets);
  return {
    ...spec,
    ...withList(
      'initContainers',
      spec.initContainers,
      mergedContainers(objectsIn(spec.initContainers), initContainers),
    ),
    containers: mergedContainers(objectsIn(spec.containers), sort ? containers.toSorted(byName) : containers),
    ...withList('volumes', spec.volumes, volumes),
    ...withList('imagePullSecrets', spec.imagePullSecrets, secrets),
  };
}

/** A list that was absent stays absent while it is empty. */
function withList(name: string, before: Json | undefined, list: readonly JsonObject[]): JsonObject {
  return isJsonList(before) || list.length > 0 ? { [name]: list } : {};
}

function byName(left: Built, right: Built): number {
  return compareGoStrings(String(left.container.name), String(right.container.name));
}

/** A container with the name of a sidecar is replaced at its place (SCS-23), the others go before or behind (SCS-24). */
function mergedContainers(own: readonly JsonObject[], built: readonly Built[]): readonly JsonObject[] {
  const byName = new Map(built.map(({ container }) => [container.name, container]));
  const replaced = new Set<Json | undefined>();
  const kept = own.map((container) => {
    const sidecar = byName.get(container.name);
    if (sidecar !== undefined) replaced.add(container.name);
    return sidecar ?? container;
  });
  const added = built.filter(({ container }) => !replaced.has(container.name));
  return [
    ...added.filter(({ isBefore }) => isBefore).map(({ container }) => container),
    ...kept,
    ...added.filter(({ isBefore }) => !isBefore).map(({ container }) => container),
  ];
}

/** The volumes that the specs of the sidecars mount, unless the pod has one of the name (SCS-27). */
function mergedVolumes(own: readonly JsonObject[], sets: readonly BuiltSet[]): readonly JsonObject[] {
  const volumes = [...own];
  const names = new Set(own.map(({ name }) => name));
  for (const { content } of sets) {
    const defined = new Map((content.volumes ?? []).map((volume) => [volume.name, volume]));
    const sidecars = [...(content.initContainers ?? []), ...(content.containers ?? [])];
    const used = sidecars.flatMap((sidecar) => [
      ...objectsIn(sidecar.volumeMounts),
      ...objectsIn(sidecar.volumeDevices),
    ]);
    for (const { name } of used) {
      const volume = defined.get(name);
      if (volume !== undefined && names.size !== names.add(name).size) volumes.push(volume);
    }
  }
  return volumes;
}

/** The pod's secrets first, each name once (SCS-28). */
function mergedSecrets(own: readonly JsonObject[], sets: readonly BuiltSet[]): readonly JsonObject[] {
  const names = new Set<Json | undefined>();
  const all = [...own, ...sets.flatMap(({ content }) => content.imagePullSecrets ?? [])];
  return all.filter(({ name }) => names.size !== names.add(name).size);
}
