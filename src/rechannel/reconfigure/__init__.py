"""Changes of a running stream: what to change, how gently, and in which steps. Pure.

One word per stage of a change:

    stage                                    word       value
    what a user wants                        change     Change (changes/), ProgramEdit (edits); ChangeSet
    sent to a job                            request    Request (requests)
    accepted, with all that happened since   record     Record (record), the fold of its events
    what happened, as the journal keeps it   event      Requested, Prepared, Planned, Stepped, ... (events)
    what changes at one timestep boundary    step       Step (steps); once it is made: TakenStep (record)
    what the driver does at a boundary       decision   Decision (coordinator)

A reconfiguration is one request and everything that follows from it; its record is its state.
"""
