import type { Json } from '../../api/base/json.ts';
import { qualifiedName } from '../../api/core/refs.ts';
import type { FieldChange, PodAction, PodPlan, SetPlan } from '../set-plan.ts';
import { counted, indented, renderTable } from './table.ts';

/** Plans for people. */
export function planText(plans: readonly SetPlan[]): string {
  return plans.map(setText).join('\n\n');
}

function setText(plan: SetPlan): string {
  const { kind, changes, notes } = plan;
  const sections = [
    `${kind} ${qualifiedName(plan)}: ${summaryText(plan)}`,
    revisionText(plan),
    ...(changes.length > 0 ? [`Changes\n${indented(changes.map(changeText).join('\n'))}`] : []),
    ...(notes.length > 0 ? [`Notes\n${indented(notes.join('\n'))}`] : []),
    ...(plan.pods.length > 0 ? [renderTable(['BATCH', 'POD', 'ACTION', 'WHY'], plan.pods.map(row))] : []),
  ];
  return sections.filter((section) => section !== '').join('\n\n');
}

const actionTexts: Readonly<Record<PodAction, string>> = {
  create: 'create',
  delete: 'delete',
  inPlace: 'in place',
  recreate: 'recreate',
  impossible: 'impossible',
  kept: 'kept',
};

function summaryText({ exists, summary, batches, batchSize, changes }: SetPlan): string {
  const moves = (Object.keys(actionTexts) as readonly PodAction[]).filter(
    (action) => action !== 'kept' && summary[action] > 0,
  );
  if (moves.length === 0) {
    if (!exists) return 'new, without pods';
    return changes.length === 0 ? 'unchanged' : 'no pod changes';
  }
  const parts = [...moves, ...(summary.kept > 0 ? (['kept'] as const) : [])].map(
    (action) => `${summary[action]} ${actionTexts[action]}`,
  );
  const inBatches = batches.length > 0 ? `; ${counted(batches.length, 'batch', 'batches')}` : '';
  const size = batches.length > 1 ? ` of at most ${batchSize}` : '';
  return `${exists ? '' : 'new: '}${parts.join(', ')}${inBatches}${size}`;
}

function revisionText({ exists, revision }: SetPlan): string {
  if (!exists) return `Revision ${revision.to}`;
  return revision.from === revision.to ? `Revision ${revision.to}` : `Revision ${revision.from} -> ${revision.to}`;
}

function changeText({ path, from, to }: FieldChange): string {
  if (from === undefined && to === undefined) return `${path} (not shown)`;
  if (from === undefined) return `${path}: ${short(to)} (new)`;
  return to === undefined ? `${path}: ${short(from)} (removed)` : `${path}: ${short(from)} -> ${short(to)}`;
}

const longestValue = 60;

function short(value: Json | undefined): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > longestValue ? `${text.slice(0, longestValue)}...` : text;
}

function row({ pod, count = 1, batch, action, why }: PodPlan): readonly string[] {
  return [batch === undefined ? '-' : String(batch), pod ?? `(${count} new)`, actionTexts[action], why];
}
