// The environment variables of a container that refer to metadata of its pod, and the hash of their values.

import { deepHash } from '../base/fnv.ts';
import { entryOf } from '../base/json.ts';
import { compareGoStrings, goJson } from '../base/json-go.ts';
import type { Container } from '../core/pod.ts';
import type { RefMetadata } from './work.ts';

/** An environment variable whose value is a label or an annotation of the pod. */
export interface EnvReference {
  readonly env: string;
  readonly from: 'labels' | 'annotations';
  readonly key: string;
}

/** The variables of a container that refer to the pod's metadata (IPU-11), in the order of the container. */
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

/** The hash that a container of this pod has if it was started with the pod's current metadata. */
export function expectedEnvHash(container: Pick<Container, 'env'>, metadata: RefMetadata): number {
  return envHash(
    envReferences(container).map(({ env, from, key }) => ({ name: env, value: entryOf(metadata[from], key) ?? '' })),
  );
}

/**
 * The hash of the environment with which an instance of this container was started. A variable that a later one of the
 * same name overrides cannot be observed, and counts as if it had the current value: a restart would not change
 * anything.
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

const ignoredEnv: readonly string[] = ['SIDECARSET_VERSION', 'SIDECARSET_VERSION_ALT'];
