// The environment variables of a container that follow the metadata of its pod, and the hash of their values.

import { deepHash } from '../base/fnv.ts';
import { entryOf } from '../base/json.ts';
import { compareGoStrings, goJson } from '../base/json-go.ts';
import type { Container } from '../core/pod.ts';
import type { RefMetadata } from './work.ts';

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

const ignoredEnv: readonly string[] = ['SIDECARSET_VERSION', 'SIDECARSET_VERSION_ALT'];
