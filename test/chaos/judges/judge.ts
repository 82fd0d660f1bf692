/** A pure verdict on what witnesses have recorded: everything that is not as promised, in words. So a judge can be judged. */
export type Judge<Evidence> = (evidence: Evidence) => readonly string[];
