// Which SidecarSets are injected into a new pod, and which content of each (SCS-1, SCS-20, SCS-90 to SCS-94, SCS-105).

import { parsePercent } from '../../base/int-or-percent.ts';
import { type JsonObject, objectOr } from '../../base/json.ts';
import { compareGoStrings } from '../../base/json-go.ts';
import { perObject } from '../../base/per-object.ts';
import { type LabelSelector, labelMatcher } from '../../core/label-selector.ts';
import type { ControllerRevision } from '../../fleet/revision.ts';
import { canaryBase } from '../canary.ts';
import { namespaceNameLabel } from '../convert.ts';
import { type ContentHashes, contentHashes } from '../hash.ts';
import { hashAnnotation } from '../marks.ts';
import { typedSpec } from '../read.ts';
import type { SidecarContent, SidecarSet } from '../types.ts';

type Labels = Readonly<Record<string, string>>;

/** A new pod as selectors see it. */
export interface SelectedPod {
  readonly labels: Labels;
  /** The labels of its namespace; undefined: the namespace does not exist. */
  readonly namespaceLabels: Labels | undefined;
}

/** The content of a SidecarSet that a pod gets. */
export interface ChosenContent {
  readonly content: SidecarContent;
  readonly hashes: ContentHashes;
  /** The name of the ControllerRevision on the pod; empty: none is known yet (SCS-31). */
  readonly revision: string;
}

/** A stored revision that new pods get. */
export type WantedRevision =
  | { readonly name: string }
  | { readonly sidecarSet: string; readonly customVersion: string };

/** Whether the SidecarSet selects the pod (SCS-1). A malformed or empty selector selects nothing. */
export function selectsPod({ spec }: SidecarSet, { labels, namespaceLabels }: SelectedPod): boolean {
  const { selector, namespaceSelector } = spec;
  if (selector === undefined || isEmpty(selector) || !matcherOf(selector)(labels)) return false;
  if (namespaceSelector === undefined) return true;
  return namespaceLabels !== undefined && matcherOf(namespaceSelector)(namespaceLabels);
}

/**
 * The SidecarSets to inject, in the order of their work: those of a single namespace first, each group by name. Paused
 * ones are left out, and the base of a canary that selects the pod.
 */
export function setsForPod(sets: readonly SidecarSet[], pod: SelectedPod): readonly SidecarSet[] {
  const selecting = sets.filter((set) => set.spec.injectionStrategy?.paused !== true && selectsPod(set, pod));
  if (selecting.length === 0) return [];
  const displaced = new Set(selecting.map(canaryBase));
  const rank = (set: SidecarSet) => (pinnedNamespaces(set).length > 0 ? 0 : 1);
  return selecting
    .filter(({ metadata }) => !displaced.has(metadata.name))
    .toSorted((left, right) => rank(left) - rank(right) || compareGoStrings(left.metadata.name, right.metadata.name));
}

/** The namespaces to which a SidecarSet is limited by their names; empty: to none in particular (SCS-20). */
export function pinnedNamespaces({ spec }: SidecarSet): readonly string[] {
  const { matchLabels = {}, matchExpressions = [] } = spec.namespaceSelector ?? {};
  const byLabel = Object.hasOwn(matchLabels, namespaceNameLabel) ? matchLabels[namespaceNameLabel] : undefined;
  if (byLabel !== undefined) return [byLabel];
  const rule = matchExpressions.find(({ key, operator }) => key === namespaceNameLabel && operator === 'In');
  return rule?.values ?? [];
}

/** The stored revision that this pod gets; undefined: the current content. `draw` gives a number from 0 to 1. */
export function wantedRevision(set: SidecarSet, labels: Labels, draw: () => number): WantedRevision | undefined {
  const { revisionName, customVersion, policy } = set.spec.injectionStrategy?.revision ?? {};
  const named: WantedRevision | undefined =
    revisionName !== undefined
      ? { name: revisionName }
      : customVersion !== undefined
        ? { sidecarSet: set.metadata.name, customVersion }
        : undefined;
  if (named === undefined) return undefined;
  const { paused, selector, partition } = set.spec.updateStrategy ?? {};
  if (paused === true || policy !== 'Partial') return named;
  if (selector !== undefined && !matcherOf(selector)(labels)) return named;
  const share = typeof partition === 'string' ? parsePercent(partition) : undefined;
  if (share === undefined) return undefined;
  return draw() <= Number(share.numerator) / Number(share.denominator) ? named : undefined;
}

/** The present content of a SidecarSet. */
export function currentContent({ metadata, spec, status }: SidecarSet): ChosenContent {
  return {
    content: spec,
    hashes: hashesOf(metadata.annotations, spec),
    revision: status?.latestRevision ?? '',
  };
}

/** The content of a stored revision (SCS-92); undefined when it has none. */
export function revisionContent({ metadata, data }: ControllerRevision): ChosenContent | undefined {
  const { $patch: _, ...content } = objectOr(objectOr(data).spec);
  if (!Array.isArray(content.containers) && !Array.isArray(content.initContainers)) return undefined;
  const typed = typedSpec(content);
  return { content: typed, hashes: hashesOf(metadata.annotations, content), revision: metadata.name };
}

/** The newest revision with this custom version, among those of this SidecarSet (SCS-91). */
export function newestRevision(revisions: readonly ControllerRevision[]): ControllerRevision | undefined {
  return revisions.toSorted((left, right) => left.revision - right.revision).at(-1);
}

function hashesOf(annotations: Labels | undefined, content: SidecarContent | JsonObject): ContentHashes {
  const { [hashAnnotation.whole]: whole, [hashAnnotation.withoutImage]: withoutImage } = annotations ?? {};
  return whole && withoutImage ? { whole, withoutImage } : contentHashes({ ...content } as JsonObject);
}

function isEmpty({ matchLabels = {}, matchExpressions = [] }: LabelSelector): boolean {
  return Object.keys(matchLabels).length + matchExpressions.length === 0;
}

/** Every pod is compared with the same few selectors. */
const matcherOf = perObject((selector: LabelSelector) => labelMatcher(selector) ?? (() => false));
