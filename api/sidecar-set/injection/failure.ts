/** Why a SidecarSet cannot be injected into a pod. */
export class InjectionError extends Error {
  override readonly name = 'InjectionError';
}
