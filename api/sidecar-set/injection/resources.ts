// `resourcesPolicy`: the resources of a sidecar from those of the containers of the pod (SCS 5.4).

import { parseGoRegexp } from '../../base/go-regexp.ts';
import { type JsonObject, objectOr } from '../../base/json.ts';
import { textOf } from '../read.ts';
import {
  type Amount,
  addAmounts,
  amountOf,
  type ComputedResource,
  evaluateExpression,
} from '../resource-expression.ts';
import { isNativeSidecar, type ResourcesPolicy } from '../types.ts';
import { InjectionError } from './failure.ts';
import { objectsIn } from './share.ts';

/** The containers of a new pod that may count, without those that SidecarSets define (SCS-61). */
export function countedContainers(spec: JsonObject, defined: ReadonlySet<string>): readonly JsonObject[] {
  return [...objectsIn(spec.initContainers).filter(isNativeSidecar), ...objectsIn(spec.containers)].filter(
    ({ name }) => !defined.has(textOf(name)),
  );
}

/** The resources of the sidecar (SCS-62 to SCS-65). */
export function computedResources(policy: ResourcesPolicy, containers: readonly JsonObject[]): JsonObject {
  const { targetContainersMode: mode, targetContainersNameRegex = '.*', resourcesExpr } = policy;
  const regexp = parseGoRegexp(targetContainersNameRegex);
  if ('problem' in regexp) throw new InjectionError(`targetContainersNameRegex is invalid: ${regexp.problem}`);
  const targets = containers.filter(({ name }) => regexp.matches(textOf(name)));
  if (targets.length === 0) {
    throw new InjectionError(
      `no container of the pod matches targetContainersNameRegex "${targetContainersNameRegex}"`,
    );
  }
  const parts = (['limits', 'requests'] as const).flatMap((kind) => {
    const amounts = (['cpu', 'memory'] as const).flatMap((resource) => {
      const text = resourcesExpr?.[kind]?.[resource] ?? '';
      const total = text === '' ? undefined : aggregate(targets, { kind, resource, mode });
      return total === undefined ? [] : [[resource, evaluated(text, resource, total)] as const];
    });
    return amounts.length === 0 ? [] : [[kind, Object.fromEntries(amounts)] as const];
  });
  return Object.fromEntries(parts);
}

interface Aggregation {
  readonly kind: 'limits' | 'requests';
  readonly resource: ComputedResource;
  readonly mode: 'sum' | 'max';
}

const none: Amount = { kind: 'quantity', milli: 0n, format: 'decimal' };

/** Undefined: a limit is missing, so there is none. */
function aggregate(targets: readonly JsonObject[], { kind, resource, mode }: Aggregation): Amount | undefined {
  let total = none;
  for (const { resources } of targets) {
    const text = objectOr(objectOr(resources)[kind])[resource];
    const amount = typeof text === 'string' || typeof text === 'number' ? amountOf(text) : undefined;
    if (amount === undefined && kind === 'limits') return undefined;
    const value = amount ?? none;
    if (mode === 'sum') total = addAmounts(total, value);
    else if (value.milli > total.milli) total = value;
  }
  return total;
}

function evaluated(text: string, resource: ComputedResource, value: Amount): string {
  const result = evaluateExpression(text, resource, value);
  if (result.kind === 'failed') throw new InjectionError(`expression "${text}" for ${resource}: ${result.problem}`);
  return result.text;
}
