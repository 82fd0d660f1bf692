import { cloneSets } from '../../../api/cloneset.ts';
import { convertCloneSet } from '../../../api/cloneset-conversion.ts';
import { convertRecreateRequest, crr } from '../../../api/container-recreate-request.ts';
import type { Conversion } from './review.ts';

/** Every kind that Windlass converts; its CRD is told where. */
export const conversions: readonly Conversion[] = [
  { resource: crr, convert: convertRecreateRequest },
  { resource: cloneSets, convert: convertCloneSet },
];
