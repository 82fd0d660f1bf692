// What the scripts of hot-upgrade sidecars read when a container starts, and what the published ones do with it (SHU-81).
import type { Json } from '../../api/base/json.ts';
import type { Pod } from '../../api/core/pod.ts';

/** What a process does that has just started. */
export type StartRole =
  /** It does nothing: its container is idle. */
  | 'idles'
  /** It opens listeners of its own. */
  | 'listens'
  /** It takes over from the other container. */
  | 'takes over'
  /** It is the old one of a swap, started again: it stays alive, and does not listen. */
  | 'stays up';

/** What the process of a container does that starts now, by the two versions that the kubelet gives it. */
export function startRole(pod: Pod, container: string): StartRole {
  const own = Number(variable(pod, container, 'SIDECARSET_VERSION'));
  const other = Number(variable(pod, container, 'SIDECARSET_VERSION_ALT'));
  if (![own, other].every(Number.isSafeInteger)) throw new Error(`${container} has versions ${own} and ${other}`);
  if (own === 0) return 'idles';
  if (other === 0) return 'listens';
  return own > other ? 'takes over' : 'stays up';
}

interface Variable {
  readonly name?: Json;
  readonly valueFrom?: { readonly fieldRef?: { readonly fieldPath?: string } };
}

/** A variable that comes from an annotation of the pod, as the kubelet resolves it when a container starts. */
function variable({ metadata, spec }: Pod, container: string, name: string): string {
  const { env = [] } = (spec.containers.find((one) => one.name === container) ?? {}) as { env?: readonly Variable[] };
  const path = env.find((one) => one.name === name)?.valueFrom?.fieldRef?.fieldPath ?? '';
  const annotation = /^metadata\.annotations\['(.+)'\]$/.exec(path)?.[1] ?? '';
  const value = metadata.annotations?.[annotation];
  if (value === undefined) throw new Error(`${container} has no variable ${name} from an annotation: "${path}"`);
  return value;
}
